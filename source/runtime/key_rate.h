#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

#include "source/store/store.h"

namespace idempotency::runtime {

// Limits the new keys per second of each tenant in this process: a token bucket for each tenant,
// which holds the tokens of one second. Memory is bounded: tenants below their rate are forgotten
// first, and then start with a full bucket again. Any thread.
class KeyRate {
public:
  // None: no limit.
  explicit KeyRate(std::optional<uint32_t> per_second) : per_second_(per_second) {}

  // False if no token is left. A token that turns out not to be needed is given back.
  bool take(const std::string& tenant, store::MonotonicTime now);
  void giveBack(const std::string& tenant);

private:
  struct Bucket {
    double tokens = 0;
    store::Deadline filled{};
  };
  double filledTokens(const Bucket& bucket, store::MonotonicTime now) const;
  // With the lock held. Amortized: afterwards there is room for as many as were forgotten.
  void makeRoom(store::MonotonicTime now);

  const std::optional<uint32_t> per_second_;
  std::mutex mutex_;
  absl::flat_hash_map<std::string, Bucket> buckets_;  // Guarded by mutex_.
};

}  // namespace idempotency::runtime
