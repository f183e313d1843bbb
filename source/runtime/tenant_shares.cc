#include "source/runtime/tenant_shares.h"

#include <functional>

namespace idempotency::runtime {

TenantShares::Shard& TenantShares::shardOf(const std::string& tenant) {
  return shards_[std::hash<std::string>()(tenant) % ShardCount];
}

TenantShares::Entry* TenantShares::enter(const std::string& tenant, uint32_t most) {
  Shard& shard = shardOf(tenant);
  const std::lock_guard lock(shard.mutex);
  Entry& entry = *shard.tenants.try_emplace(tenant).first;
  // A tenant that is new here is below any limit: a refusal leaves no entry behind.
  if (entry.second.in_flight >= most) {
    return nullptr;
  }
  ++entry.second.in_flight;
  return &entry;
}

void TenantShares::leave(Entry* entry) {
  Shard& shard = shardOf(entry->first);
  const std::lock_guard lock(shard.mutex);
  if (--entry->second.in_flight == 0) {
    shard.tenants.erase(shard.tenants.find(entry->first));
  }
}

size_t TenantShares::size() const {
  size_t size = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    size += shard.tenants.size();
  }
  return size;
}

}  // namespace idempotency::runtime
