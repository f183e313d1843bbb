#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "source/filter/log_limiter.h"
#include "source/filter/stat_sink.h"
#include "source/maintenance/maintenance_observer.h"

namespace idempotency {

// Counts and logs what the background jobs of a backend do. On the store's thread; the sink must
// live as long as the store.
class MaintenanceLog : public MaintenanceObserver {
public:
  MaintenanceLog(StatSink& stats, bool reconciles) : stats_(stats), reconciles_(reconciles) {}

  // MaintenanceObserver
  void onExtended(uint64_t claims) override;
  void onFenced(uint64_t claims) override;
  void onExtendFailed(uint64_t claims, const std::string& reason) override;
  void onLeadership(bool ours) override;
  void onSwept(const MaintenanceResult& result) override;
  void onReaped(const MaintenanceResult& result) override;
  void onJobFailed(MaintenanceJob job, const std::string& reason) override;

private:
  StatSink& stats_;
  const bool reconciles_;
  LogLimiter extend_failures_{std::chrono::seconds(10)};
  LogLimiter job_failures_{std::chrono::seconds(60)};
};

}  // namespace idempotency
