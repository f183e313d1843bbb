#pragma once

#include <cstdint>
#include <string>

#include "source/store/maintenance_store.h"

namespace idempotency::runtime {

enum class MaintenanceJob : uint8_t { Lead, Sweep, Reap };

// Counts and logs what the background jobs do. Called on the store's thread; must not block.
class MaintenanceObserver {
public:
  virtual ~MaintenanceObserver() = default;

  // --- Heartbeat
  virtual void onExtended(uint64_t claims) = 0;
  // The records no longer belong to these attempts.
  virtual void onFenced(uint64_t claims) = 0;
  // Not extended, or perhaps not; retried soon.
  virtual void onExtendFailed(uint64_t claims, const std::string& reason) = 0;

  // --- Jobs
  // This process becomes the leader, or ceases to be.
  virtual void onLeadership(bool ours) = 0;
  virtual void onSwept(const store::MaintenanceResult& result) = 0;
  virtual void onReaped(const store::MaintenanceResult& result) = 0;
  virtual void onJobFailed(MaintenanceJob job, const std::string& reason) = 0;
};

}  // namespace idempotency::runtime
