#include "source/filter/stream/route_policy.h"

#include <utility>

namespace idempotency::filter {

SharedPolicy makePolicy(const config::FilterConfig& filter, const config::RouteConfig* route) {
  absl::StatusOr<protocol::Policy> policy = config::resolvePolicy(filter, route);
  if (!policy.ok()) {
    return policy.status();
  }
  return std::make_shared<const protocol::Policy>(*std::move(policy));
}

RoutePolicy::~RoutePolicy() {
  for (const Entry* entry = head_.load(); entry != nullptr;) {
    delete std::exchange(entry, entry->next);
  }
}

const SharedPolicy& RoutePolicy::resolve(uint64_t filter_id,
                                         const config::FilterConfig& filter) const {
  if (const Entry* entry = find(filter_id)) {
    return entry->policy;
  }
  std::lock_guard lock(append_mutex_);
  if (const Entry* entry = find(filter_id)) {
    return entry->policy;
  }
  const Entry* entry = new Entry{filter_id, makePolicy(filter, &config_), head_.load()};
  head_.store(entry, std::memory_order_release);
  return entry->policy;
}

const RoutePolicy::Entry* RoutePolicy::find(uint64_t filter_id) const {
  const Entry* entry = head_.load(std::memory_order_acquire);
  while (entry != nullptr && entry->filter_id != filter_id) {
    entry = entry->next;
  }
  return entry;
}

}  // namespace idempotency::filter
