#include "source/filter/backend/maintenance_log.h"

#include <fmt/format.h>
#include <string_view>

#include "source/envoy/process.h"

namespace idempotency::filter {
namespace {

std::string_view name(runtime::MaintenanceJob job) {
  switch (job) {
    case runtime::MaintenanceJob::Lead:
      return "leader election";
    case runtime::MaintenanceJob::Sweep:
      return "sweeper";
    case runtime::MaintenanceJob::Reap:
      return "reaper";
  }
  return "job";
}

void logLimited(runtime::LogLimiter& limiter, const std::string& message) {
  if (const auto kept_back = limiter.admit(std::chrono::steady_clock::now())) {
    envoy::log(envoy::LogLevel::Warn, message + runtime::droppedLines(*kept_back));
  }
}

}  // namespace

void MaintenanceLog::onExtended(uint64_t claims) {
  stats_.count(&Stats::heartbeat_extended, claims);
}

void MaintenanceLog::onFenced(uint64_t claims) {
  envoy::log(envoy::LogLevel::Warn,
             fmt::format("idempotency: {} running requests lost their claims, because their leases "
                         "were not extended in time",
                         claims));
}

void MaintenanceLog::onExtendFailed(uint64_t claims, const std::string& reason) {
  stats_.count(&Stats::heartbeat_failed, claims);
  logLimited(extend_failures_,
             fmt::format("idempotency: {} leases were not extended: {}", claims, reason));
}

void MaintenanceLog::onLeadership(bool ours) {
  stats_.set(&Stats::leader, ours ? 1 : 0);
  lead_(ours);
  envoy::log(envoy::LogLevel::Info,
             ours ? "idempotency: this process now runs the background jobs"
                  : "idempotency: this process no longer runs the background jobs");
}

void MaintenanceLog::onSwept(const store::MaintenanceResult& result) {
  stats_.count(&Stats::lease_to_unknown, result.to_unknown);
  stats_.count(&Stats::lease_to_retry, result.to_retry);
  if (result.to_unknown + result.to_retry > 0) {
    envoy::log(envoy::LogLevel::Warn,
               fmt::format("idempotency: leases expired: {} requests have an unknown outcome, {} "
                           "may run again",
                           result.to_unknown, result.to_retry));
  }
}

void MaintenanceLog::onReaped(const store::MaintenanceResult& result) {
  stats_.count(&Stats::reaped, result.expired + result.deleted);
}

void MaintenanceLog::onJobFailed(runtime::MaintenanceJob job, const std::string& reason) {
  stats_.count(&Stats::maintenance_failed);
  logLimited(job_failures_, fmt::format("idempotency: {} failed: {}", name(job), reason));
}

}  // namespace idempotency::filter
