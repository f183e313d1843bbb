#include "source/filter/stats/stat_sink.h"

#include <algorithm>
#include <utility>

namespace idempotency::filter {

void LentConfig::count(envoy::Counter Stats::*counter, uint64_t by) {
  const std::lock_guard lock(mutex_);
  if (!ended_) {
    handle_.increment(stats_.*counter, by);
  }
}

void LentConfig::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

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
    UnsettledGauges::instance().set(this, {});
    if (std::this_thread::get_id() == main_thread_) {
      tell(configs_.front());
      tellUnsettled(configs_.front());
    }
  }
  std::erase_if(configs_,
                [&](const Config& config) { return config.handle.handle() == handle.handle(); });
}

void StatSink::lend(std::shared_ptr<LentConfig> lent) {
  const std::lock_guard lock(mutex_);
  lent_ = std::move(lent);
}

void StatSink::count(envoy::Counter Stats::*counter, uint64_t by) {
  if (by == 0) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!configs_.empty()) {
    const Config& config = configs_.front();
    config.handle.increment(config.stats.*counter, by);
  } else if (lent_ != nullptr) {
    lent_->count(counter, by);
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
    // Runs only while the config exists, and with it the backend that owns this object.
    config.mailbox->post([this, handle = config.handle, stats = config.stats] {
      tell({handle, stats, nullptr});
    });
  }
}

void StatSink::showUnsettled(std::vector<UnsettledGauges::Row> rows) {
  const std::lock_guard lock(mutex_);
  if (configs_.empty()) {
    return;  // And so this backend has no rows: see detach().
  }
  UnsettledGauges::instance().set(this, std::move(rows));
  const Config& config = configs_.front();
  // Runs only while the config exists.
  config.mailbox->post([handle = config.handle, stats = config.stats] {
    tellUnsettled({handle, stats, nullptr});
  });
}

void StatSink::tellUnsettled(const Config& config) {
  UnsettledGauges::instance().show([&](std::string_view label, const UnsettledGauges::Row& sum) {
    config.handle.set(config.stats.unknown_records, {label}, sum.records);
    config.handle.set(config.stats.unknown_oldest_seconds, {label}, sum.oldest_seconds);
    config.handle.set(config.stats.dead_letters, {label}, sum.dead_letters);
  });
}

void StatSink::tell(const Config& config) {
  for (Tally& tally : tallies_) {
    for (const LabelTally::Kept& kept : tally.events.take()) {
      config.handle.increment(config.stats.*tally.counter, {kept.label}, kept.events);
    }
  }
}

}  // namespace idempotency::filter
