#pragma once

#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "source/protocol/name_source.h"
#include "source/protocol/settings.h"

namespace idempotency::config {

// The config of the operator filter, validated.
struct OperatorConfig {
  protocol::OperatorSettings settings;
  std::vector<protocol::NameSource> actor_sources;  // In order of precedence.
};

// Reads the JSON that Envoy makes from the config: see loadFilterConfig().
[[nodiscard]] absl::StatusOr<OperatorConfig> loadOperatorConfig(std::string_view json);

}  // namespace idempotency::config
