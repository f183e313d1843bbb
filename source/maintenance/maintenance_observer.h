#pragma once

#include <cstdint>
#include <string>

#include "source/store/maintenance_store.h"

namespace idempotency {

enum class MaintenanceJob : uint8_t { Lead, Sweep, Reap };

// Who counts and logs what the background jobs do. Called on the store's thread; must not block.
class MaintenanceObserver {
public:
  virtual ~MaintenanceObserver() = default;

  // --- Heartbeat
  virtual void onExtended(uint64_t claims) = 0;
  // The store says that these records belong to their attempts no more.
  virtual void onFenced(uint64_t claims) = 0;
  // Not extended, or perhaps not; tried again soon.
  virtual void onExtendFailed(uint64_t claims, const std::string& reason) = 0;

  // --- Jobs
  // This process leads from now on, or no more.
  virtual void onLeadership(bool ours) = 0;
  virtual void onSwept(const MaintenanceResult& result) = 0;
  virtual void onReaped(const MaintenanceResult& result) = 0;
  virtual void onJobFailed(MaintenanceJob job, const std::string& reason) = 0;
};

}  // namespace idempotency
