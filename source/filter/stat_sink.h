#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "source/envoy/config_handle.h"
#include "source/envoy/mailbox.h"
#include "source/envoy/stream.h"
#include "source/filter/label_tally.h"
#include "source/filter/stats.h"

namespace idempotency {

// Statistics from threads that are not Envoy's, and those that many requests share. Envoy wants a
// live config for that; all configs write to the same values, so any of those that share a backend
// will do. Any thread.
class StatSink {
public:
  using Labelled = envoy::LabelledCounter<1> Stats::*;

  // A config comes, on the main thread, and goes: after detach() its handle is not used any more.
  // What is kept by then is told by the next config; a last one that goes on a worker loses it.
  void attach(envoy::ConfigHandle handle, const Stats& stats,
              std::shared_ptr<envoy::Mailbox> mailbox);
  void detach(envoy::ConfigHandle handle);

  // Nothing happens while no config is there.
  void count(envoy::Counter Stats::*counter, uint64_t by = 1);
  // This backend's share of a gauge: other backends of the process add theirs. It ends with the
  // last config.
  void set(envoy::Gauge Stats::*gauge, uint64_t value);

  // An event of a stream, on its worker. Where they come fast it shows after the next onInterval().
  void count(envoy::Stream stream, const Stats& stats, Labelled counter, std::string_view label);
  // To be called now and then: has Envoy's main thread told what was kept.
  void onInterval();

private:
  struct Config {
    envoy::ConfigHandle handle;
    Stats stats;
    std::shared_ptr<envoy::Mailbox> mailbox;
  };
  struct Share {
    envoy::Gauge Stats::*gauge;
    uint64_t value = 0;
  };
  struct Tally {
    Labelled counter;
    LabelTally events;
  };
  // With the lock held, and a config there.
  void move(Share& share, uint64_t value);
  // Main thread: labelled counters of a config may be used nowhere else.
  void tell(const Config& config);

  std::mutex mutex_;
  std::vector<Config> configs_;  // Guarded by mutex_.
  std::vector<Share> shares_;    // Guarded by mutex_.
  std::thread::id main_thread_;  // Guarded by mutex_.
#define IDEMPOTENCY_TALLY(member, name, label) Tally{&Stats::member, {}},
  std::array<Tally, 3> tallies_ = {IDEMPOTENCY_LABELLED_COUNTERS(IDEMPOTENCY_TALLY)};
#undef IDEMPOTENCY_TALLY
};

}  // namespace idempotency
