#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include <absl/status/statusor.h>

#include "source/config/config.h"
#include "source/envoy/filter.h"
#include "source/protocol/policy.h"

namespace idempotency::filter {

using SharedPolicy = absl::StatusOr<std::shared_ptr<const protocol::Policy>>;

// Resolves the policy of a pair of configs.
SharedPolicy makePolicy(const config::FilterConfig& filter, const config::RouteConfig* route);

// A route's config, and its resolved policy for each filter config that it is used with. Envoy
// shows such a pair only at the first request, so it is resolved then, once.
//
// Read by all workers concurrently: the list only grows, at its head, and is destroyed with the
// route. (It grows by one entry per filter config, so by one per listener update that this route
// outlives.)
class RoutePolicy : public envoy::RouteConfig {
public:
  explicit RoutePolicy(idempotency::config::RouteConfig config) : config_(std::move(config)) {}
  ~RoutePolicy() override;

  // `filter_id` identifies the filter config: unlike its address, it is never reused in this
  // process. The reference is valid as long as the route exists.
  const SharedPolicy& resolve(uint64_t filter_id, const config::FilterConfig& filter) const;

private:
  struct Entry {
    const uint64_t filter_id;
    const SharedPolicy policy;
    const Entry* const next;
  };
  const Entry* find(uint64_t filter_id) const;

  const idempotency::config::RouteConfig config_;
  mutable std::mutex append_mutex_;
  mutable std::atomic<const Entry*> head_{nullptr};  // Written under append_mutex_, read without.
};

}  // namespace idempotency::filter
