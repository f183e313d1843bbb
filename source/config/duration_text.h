#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::config {

struct DurationParts {
  int64_t seconds = 0;
  int32_t nanos = 0;  // Of the same sign as the seconds.
  bool operator==(const DurationParts&) const = default;
};

// Protobuf's JSON form of a duration: seconds with up to nine decimals and an "s", such as "1.5s"
// or "-3s". None for anything else and for more than 10,000 years.
[[nodiscard]] std::optional<DurationParts> parseDuration(std::string_view text);

// The same form, as short as it can be: "0.25s".
std::string formatDuration(std::chrono::milliseconds duration);

}  // namespace idempotency::config
