#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "source/filter/stats/stat_sink.h"
#include "source/runtime/log_limiter.h"
#include "source/runtime/maintenance_observer.h"

namespace idempotency::filter {

// Counts and logs what the background jobs of a backend do. On the store's thread; the sink must
// live as long as the store.
class MaintenanceLog : public runtime::MaintenanceObserver {
public:
  // `lead` hears whether this process leads.
  MaintenanceLog(StatSink& stats, std::function<void(bool)> lead)
      : stats_(stats), lead_(std::move(lead)) {}

  // MaintenanceObserver
  void onExtended(uint64_t claims) override;
  void onFenced(uint64_t claims) override;
  void onExtendFailed(uint64_t claims, const std::string& reason) override;
  void onLeadership(bool ours) override;
  void onSwept(const store::MaintenanceResult& result) override;
  void onReaped(const store::MaintenanceResult& result) override;
  void onJobFailed(runtime::MaintenanceJob job, const std::string& reason) override;

private:
  StatSink& stats_;
  const std::function<void(bool)> lead_;
  runtime::LogLimiter extend_failures_{std::chrono::seconds(10)};
  runtime::LogLimiter job_failures_{std::chrono::seconds(60)};
};

}  // namespace idempotency::filter
