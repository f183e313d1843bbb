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
#include "source/filter/stats/label_tally.h"
#include "source/filter/stats/stats.h"
#include "source/filter/stats/unsettled_gauges.h"

namespace idempotency::filter {

// A config of another filter, for counting in a config's place. Any thread.
class LentConfig {
public:
  LentConfig(envoy::ConfigHandle handle, const Stats& stats) : handle_(handle), stats_(stats) {}
  // Does nothing after end().
  void count(envoy::Counter Stats::*counter, uint64_t by);
  // The config is destroyed: its handle is no longer used.
  void end();

private:
  const envoy::ConfigHandle handle_;
  const Stats stats_;
  std::mutex mutex_;
  bool ended_ = false;  // Guarded by mutex_.
};

// Statistics from threads other than Envoy's, and statistics that many requests share. Envoy needs
// a live config for that. All configs write to the same values, so any config of the backend will
// do. Any thread.
class StatSink {
public:
  using Labelled = envoy::LabelledCounter<1> Stats::*;

  // Adds a config, on the main thread, and removes it: after detach() its handle is no longer used.
  // Pending counts are reported through the next config; if the last config is removed on a worker,
  // they are lost.
  void attach(envoy::ConfigHandle handle, const Stats& stats,
              std::shared_ptr<envoy::Mailbox> mailbox);
  void detach(envoy::ConfigHandle handle);

  // What counts once there is no config: a detached run outlives those. The last one stays.
  void lend(std::shared_ptr<LentConfig> lent);

  // Does nothing while there is no config at all.
  void count(envoy::Counter Stats::*counter, uint64_t by = 1);
  // This backend's share of a gauge: other backends of the process add theirs. It ends with the
  // last config.
  void set(envoy::Gauge Stats::*gauge, uint64_t value);

  // An event of a stream, on its worker. If there are many, it shows only after the next
  // onInterval().
  void count(envoy::Stream stream, const Stats& stats, Labelled counter, std::string_view label);
  // This backend's records without an outcome, shown on Envoy's main thread.
  void showUnsettled(std::vector<UnsettledGauges::Row> rows);

  // Call it regularly: reports pending counts on Envoy's main thread.
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
  // With the lock held, and with at least one config.
  void move(Share& share, uint64_t value);
  // Main thread: labelled statistics of a config may only be used there.
  void tell(const Config& config);
  static void tellUnsettled(const Config& config);

  std::mutex mutex_;
  std::vector<Config> configs_;       // Guarded by mutex_.
  std::shared_ptr<LentConfig> lent_;  // Guarded by mutex_.
  std::vector<Share> shares_;         // Guarded by mutex_.
  std::thread::id main_thread_;       // Guarded by mutex_.
#define IDEMPOTENCY_TALLY(member, name, label) Tally{&Stats::member, {}},
  std::array<Tally, 3> tallies_ = {IDEMPOTENCY_LABELLED_COUNTERS(IDEMPOTENCY_TALLY)};
#undef IDEMPOTENCY_TALLY
};

}  // namespace idempotency::filter
