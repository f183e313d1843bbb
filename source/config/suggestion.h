#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace idempotency::config {

// The name that `given` is most likely a misspelling of; none if no name is close, or if two are
// equally close. Case, dashes and underscores do not count.
[[nodiscard]] std::optional<std::string_view> closestName(std::string_view given,
                                                          std::span<const std::string> names);

}  // namespace idempotency::config
