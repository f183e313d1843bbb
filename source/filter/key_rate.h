#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

#include "source/store/store.h"

namespace idempotency {

// How many new keys each tenant may bring to this process per second: a bucket of tokens for each
// tenant, full at one second's worth. Bounded in memory: who is not over his rate is forgotten
// first, and so gets a full bucket again. Any thread.
class KeyRate {
public:
  // None: no limit.
  explicit KeyRate(std::optional<uint32_t> per_second) : per_second_(per_second) {}

  // False: none is left. A token that was not needed after all is given back.
  bool take(const std::string& tenant, Deadline now);
  void giveBack(const std::string& tenant);

private:
  struct Bucket {
    double tokens = 0;
    Deadline filled{};
  };
  double filledTokens(const Bucket& bucket, Deadline now) const;
  // With the lock held. Never long: afterwards there is room for as many again as were forgotten.
  void makeRoom(Deadline now);

  const std::optional<uint32_t> per_second_;
  std::mutex mutex_;
  absl::flat_hash_map<std::string, Bucket> buckets_;  // Guarded by mutex_.
};

}  // namespace idempotency
