#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/container/node_hash_map.h"

namespace idempotency::runtime {

// What each tenant currently uses. Any thread.
//
// Exact, with memory limited by the current requests: a tenant has an entry while it has a request.
// Tenants are spread over shards, each with a lock that is held for one operation of a hash map.
class TenantShares {
public:
  // One tenant. Has a stable address while the tenant has a request; an admitted request may change
  // the numbers without a lock.
  struct Share {
    uint32_t in_flight = 0;  // Guarded by the shard's lock.
    std::atomic<uint32_t> waiters{0};
    std::atomic<uint64_t> bytes{0};
  };
  using Entry = std::pair<const std::string, Share>;

  // Counts a request of the tenant. Null if it already has `most` requests.
  Entry* enter(const std::string& tenant, uint32_t most);
  void leave(Entry* entry);

  // How many tenants are known.
  size_t size() const;

private:
  static constexpr size_t ShardCount = 64;
  struct alignas(64) Shard {
    mutable std::mutex mutex;
    absl::node_hash_map<std::string, Share> tenants;  // Guarded by mutex.
  };
  Shard& shardOf(const std::string& tenant);

  std::array<Shard, ShardCount> shards_;
};

}  // namespace idempotency::runtime
