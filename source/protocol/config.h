#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "source/protocol/name_source.h"
#include "source/protocol/policy.h"
#include "source/protocol/policy_fields.h"
#include "source/protocol/settings.h"

namespace idempotency {

// A filter's config, validated.
struct FilterConfig {
  StoreSettings store;
  std::vector<NameSource> tenant_sources;  // In the order in which they are asked; never empty.
  PolicyFields policy;
  ReplayCacheSettings replay_cache;
  LimitSettings limits;
  MaintenanceSettings maintenance;
  std::optional<EncryptionSettings> encryption;
  std::optional<ReconcileSettings> reconcile;
};

// A route's config, validated as far as it can be without the filter's.
struct RouteConfig {
  PolicyFields policy;
};

// Read the JSON that Envoy makes of the config. Everything that one level alone can get wrong is
// refused here, an unset partner field counting as its default, so that `envoy --mode validate`
// shows it. The error names each wrong field by its path, what was given and what is allowed;
// values that may be secret are left out.
[[nodiscard]] absl::StatusOr<FilterConfig> loadFilterConfig(std::string_view json);
[[nodiscard]] absl::StatusOr<RouteConfig> loadRouteConfig(std::string_view json);

// The policy of a route: each field from the route, else from the filter, else the default. `route`
// is null where the route has no config of its own. Fails only if the two levels contradict each
// other, which no hook of Envoy sees at config time: call it once per pair, keep the result, and
// refuse requests on failure.
[[nodiscard]] absl::StatusOr<Policy> resolvePolicy(const FilterConfig& filter,
                                                   const RouteConfig* route);

}  // namespace idempotency
