#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "source/protocol/name_source.h"
#include "source/protocol/policy.h"
#include "source/protocol/settings.h"

namespace idempotency::v1 {
class Policy;
}

namespace idempotency::config {

// A filter's config, validated.
struct FilterConfig {
  protocol::StoreSettings store;
  std::vector<protocol::NameSource> tenant_sources;  // In order of precedence; never empty.
  // As written, so that a route's can be laid over it; null: nothing is set.
  std::shared_ptr<const v1::Policy> policy;
  protocol::ReplayCacheSettings replay_cache;
  protocol::LimitSettings limits;
  std::optional<protocol::TenantShare>
      tenant_share;  // None if one tenant may use all that `limits` allows.
  protocol::MaintenanceSettings maintenance;
  std::optional<protocol::EncryptionSettings> encryption;
  std::vector<protocol::ReconcileSettings> reconcile;  // Empty: nothing is asked.
  std::optional<protocol::PrivateListenerSettings> private_listener;
  std::optional<protocol::StatusResourceSettings> status_resource;
};

// A route's config, validated as far as possible without the filter's config.
struct RouteConfig {
  std::shared_ptr<const v1::Policy> policy;  // As written.
};

// Read the JSON that Envoy makes from the config. All errors that one level alone can have are
// found here (with defaults for unset fields), so that `envoy --mode validate` shows them. The
// error has the path of each wrong field, the given value and the expected values, and names a
// route's operation; values that may be secret are not shown.
[[nodiscard]] absl::StatusOr<FilterConfig> loadFilterConfig(std::string_view json);
[[nodiscard]] absl::StatusOr<RouteConfig> loadRouteConfig(std::string_view json);

// Checks the config of the filter on the private listener, which has no settings.
[[nodiscard]] absl::Status checkRunFilterConfig(std::string_view json);

// The policy of a route: each field from the route, else from the filter, else the default. `route`
// is null if the route has no config of its own. Fails only if the two levels conflict, which Envoy
// cannot check when it loads the config: call this once per pair, keep the result, and refuse
// requests on failure.
[[nodiscard]] absl::StatusOr<protocol::Policy> resolvePolicy(const FilterConfig& filter,
                                                             const RouteConfig* route);

}  // namespace idempotency::config
