#include "source/filter/stat_sink.h"

#include <algorithm>

namespace idempotency {

void StatSink::attach(envoy::ConfigHandle handle, const Stats& stats,
                      std::shared_ptr<envoy::Mailbox> mailbox) {
  const std::lock_guard lock(mutex_);
  main_thread_ = std::this_thread::get_id();
  configs_.push_back({handle, stats, std::move(mailbox)});
}

void StatSink::detach(envoy::ConfigHandle handle) {
  const std::lock_guard lock(mutex_);
  if (configs_.size() == 1) {
    for (Share& share : shares_) {
      move(share, 0);
    }
    if (std::this_thread::get_id() == main_thread_) {
      tell(configs_.front());
    }
  }
  std::erase_if(configs_,
                [&](const Config& config) { return config.handle.handle() == handle.handle(); });
}

void StatSink::count(envoy::Counter Stats::*counter, uint64_t by) {
  if (by == 0) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!configs_.empty()) {
    const Config& config = configs_.front();
    config.handle.increment(config.stats.*counter, by);
  }
}

void StatSink::set(envoy::Gauge Stats::*gauge, uint64_t value) {
  const std::lock_guard lock(mutex_);
  if (configs_.empty()) {
    return;
  }
  auto share = std::find_if(shares_.begin(), shares_.end(),
                            [&](const Share& known) { return known.gauge == gauge; });
  if (share == shares_.end()) {
    share = shares_.insert(shares_.end(), Share{gauge});
  }
  move(*share, value);
}

void StatSink::move(Share& share, uint64_t value) {
  const Config& config = configs_.front();
  if (value > share.value) {
    config.handle.increment(config.stats.*share.gauge, value - share.value);
  } else if (value < share.value) {
    config.handle.decrement(config.stats.*share.gauge, share.value - value);
  }
  share.value = value;
}

void StatSink::count(envoy::Stream stream, const Stats& stats, Labelled counter,
                     std::string_view label) {
  for (Tally& tally : tallies_) {
    if (tally.counter == counter && tally.events.add(label)) {
      stream.increment(stats.*counter, {label});
    }
  }
}

void StatSink::onInterval() {
  bool keeps = false;
  for (Tally& tally : tallies_) {
    keeps = tally.events.nextInterval() || keeps;
  }
  const std::lock_guard lock(mutex_);
  if (keeps && !configs_.empty()) {
    const Config& config = configs_.front();
    // Runs only while the config lives, and with it the backend that owns us.
    config.mailbox->post([this, handle = config.handle, stats = config.stats] {
      tell({handle, stats, nullptr});
    });
  }
}

void StatSink::tell(const Config& config) {
  for (Tally& tally : tallies_) {
    for (const LabelTally::Kept& kept : tally.events.take()) {
      config.handle.increment(config.stats.*tally.counter, {kept.label}, kept.events);
    }
  }
}

}  // namespace idempotency
