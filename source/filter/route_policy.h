#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include <absl/status/statusor.h>

#include "source/envoy/filter.h"
#include "source/protocol/config.h"
#include "source/protocol/policy.h"

namespace idempotency {

using SharedPolicy = absl::StatusOr<std::shared_ptr<const Policy>>;

// Resolves the policy of a pair of configs, for keeping.
SharedPolicy makePolicy(const FilterConfig& filter, const RouteConfig* route);

// A route's config, and the policies that it gives together with each filter config it meets. Envoy
// does not show the two to each other before the first request, so the pair is resolved then, once.
//
// Read by all workers at once: the list only grows, at its head, and dies with the route. (It grows
// by one entry per filter config, so by one per listener update that this route outlives.)
class RoutePolicy : public envoy::RouteConfig {
public:
  explicit RoutePolicy(idempotency::RouteConfig config) : config_(std::move(config)) {}
  ~RoutePolicy() override;

  // `filter_id` is the filter config's own: never used again in this process, unlike its address.
  // The reference lives as long as the route.
  const SharedPolicy& resolve(uint64_t filter_id, const FilterConfig& filter) const;

private:
  struct Entry {
    const uint64_t filter_id;
    const SharedPolicy policy;
    const Entry* const next;
  };
  const Entry* find(uint64_t filter_id) const;

  const idempotency::RouteConfig config_;
  mutable std::mutex append_mutex_;
  mutable std::atomic<const Entry*> head_{nullptr};  // Written under append_mutex_, read without.
};

}  // namespace idempotency
