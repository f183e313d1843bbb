#include "source/runtime/key_rate.h"

#include <algorithm>
#include <chrono>

namespace idempotency::runtime {
namespace {

constexpr size_t MostBuckets = 10'000;

}  // namespace

bool KeyRate::take(const std::string& tenant, store::MonotonicTime now) {
  if (!per_second_.has_value()) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  if (buckets_.size() >= MostBuckets && !buckets_.contains(tenant)) {
    makeRoom(now);
  }
  const auto [found, added] = buckets_.try_emplace(tenant);
  Bucket& bucket = found->second;
  bucket.tokens = added ? *per_second_ : filledTokens(bucket, now);
  bucket.filled = now;
  if (bucket.tokens < 1) {
    return false;
  }
  bucket.tokens -= 1;
  return true;
}

void KeyRate::giveBack(const std::string& tenant) {
  if (!per_second_.has_value()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (const auto found = buckets_.find(tenant); found != buckets_.end()) {
    found->second.tokens = std::min<double>(found->second.tokens + 1, *per_second_);
  }
}

double KeyRate::filledTokens(const Bucket& bucket, store::MonotonicTime now) const {
  const std::chrono::duration<double> passed = now - bucket.filled;
  return std::min<double>(bucket.tokens + passed.count() * *per_second_, *per_second_);
}

void KeyRate::makeRoom(store::MonotonicTime now) {
  absl::erase_if(buckets_, [&](const auto& item) { return filledTokens(item.second, now) >= 1; });
  if (buckets_.size() >= MostBuckets) {
    buckets_.clear();
  }
}

}  // namespace idempotency::runtime
