#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "source/envoy/config_handle.h"
#include "source/filter/stats.h"

namespace idempotency {

// Statistics from threads that are not Envoy's. Envoy wants a live config for that; all configs
// write to the same values, so any of those that share a backend will do. Any thread.
class StatSink {
public:
  // A config comes, and goes: after detach() its handle is not used any more.
  void attach(envoy::ConfigHandle handle, const Stats& stats);
  void detach(envoy::ConfigHandle handle);

  // Nothing happens while no config is there.
  void count(envoy::Counter Stats::*counter, uint64_t by = 1);
  // This backend's share of a gauge: other backends of the process add theirs. It ends with the
  // last config.
  void set(envoy::Gauge Stats::*gauge, uint64_t value);

private:
  struct Share {
    envoy::Gauge Stats::*gauge;
    uint64_t value = 0;
  };
  // With the lock held, and a config there.
  void move(Share& share, uint64_t value);

  std::mutex mutex_;
  std::vector<std::pair<envoy::ConfigHandle, Stats>> configs_;  // Guarded by mutex_.
  std::vector<Share> shares_;                                   // Guarded by mutex_.
};

}  // namespace idempotency
