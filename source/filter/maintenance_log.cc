#include "source/filter/maintenance_log.h"

#include <fmt/format.h>
#include <string_view>

#include "source/envoy/process.h"

namespace idempotency {
namespace {

std::string_view name(MaintenanceJob job) {
  switch (job) {
    case MaintenanceJob::Lead:
      return "election of the leader";
    case MaintenanceJob::Sweep:
      return "sweeper";
    case MaintenanceJob::Reap:
      return "reaper";
  }
  return "job";
}

void logLimited(LogLimiter& limiter, const std::string& message) {
  if (const auto kept_back = limiter.admit(std::chrono::steady_clock::now())) {
    envoy::log(envoy::LogLevel::Warn,
               *kept_back == 0 ? message : fmt::format("{} ({} more)", message, *kept_back));
  }
}

}  // namespace

void MaintenanceLog::onExtended(uint64_t claims) {
  stats_.count(&Stats::heartbeat_extended, claims);
}

void MaintenanceLog::onFenced(uint64_t claims) {
  envoy::log(envoy::LogLevel::Warn,
             fmt::format("idempotency: {} running requests have lost their claims: they were not "
                         "renewed in time",
                         claims));
}

void MaintenanceLog::onExtendFailed(uint64_t claims, const std::string& reason) {
  stats_.count(&Stats::heartbeat_failed, claims);
  logLimited(extend_failures_,
             fmt::format("idempotency: {} leases were not renewed: {}", claims, reason));
}

void MaintenanceLog::onLeadership(bool ours) {
  stats_.set(&Stats::leader, ours ? 1 : 0);
  envoy::log(envoy::LogLevel::Info,
             ours ? "idempotency: this process now runs sweeper and reaper"
                  : "idempotency: this process no longer runs sweeper and reaper");
}

void MaintenanceLog::onSwept(const MaintenanceResult& result) {
  stats_.count(&Stats::lease_to_unknown, result.to_unknown);
  stats_.count(&Stats::lease_to_retry, result.to_retry);
  stats_.count(&Stats::reconcile_scheduled, reconciles_ ? result.to_unknown : 0);
  if (result.to_unknown + result.to_retry > 0) {
    envoy::log(envoy::LogLevel::Warn,
               fmt::format("idempotency: leases ran out: {} outcomes are unknown, {} keys may run "
                           "again",
                           result.to_unknown, result.to_retry));
  }
}

void MaintenanceLog::onReaped(const MaintenanceResult& result) {
  stats_.count(&Stats::given_up, result.to_failed);
  stats_.count(&Stats::ttl_pruned, result.expired + result.deleted);
  if (result.to_failed > 0) {
    envoy::log(
        envoy::LogLevel::Warn,
        fmt::format("idempotency: {} unknown outcomes were given up at the end of their life",
                    result.to_failed));
  }
}

void MaintenanceLog::onJobFailed(MaintenanceJob job, const std::string& reason) {
  stats_.count(&Stats::maintenance_failed);
  logLimited(job_failures_, fmt::format("idempotency: {} failed: {}", name(job), reason));
}

}  // namespace idempotency
