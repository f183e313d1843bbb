#include "source/filter/stat_sink.h"

#include <algorithm>
#include <vector>

namespace idempotency {

void StatSink::attach(envoy::ConfigHandle handle, const Stats& stats) {
  const std::lock_guard lock(mutex_);
  configs_.emplace_back(handle, stats);
}

void StatSink::detach(envoy::ConfigHandle handle) {
  const std::lock_guard lock(mutex_);
  if (configs_.size() == 1) {
    for (Share& share : shares_) {
      move(share, 0);
    }
  }
  std::erase_if(configs_,
                [&](const auto& config) { return config.first.handle() == handle.handle(); });
}

void StatSink::count(envoy::Counter Stats::*counter, uint64_t by) {
  if (by == 0) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!configs_.empty()) {
    const auto& [handle, stats] = configs_.front();
    handle.increment(stats.*counter, by);
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
  const auto& [handle, stats] = configs_.front();
  if (value > share.value) {
    handle.increment(stats.*share.gauge, value - share.value);
  } else if (value < share.value) {
    handle.decrement(stats.*share.gauge, share.value - value);
  }
  share.value = value;
}

}  // namespace idempotency
