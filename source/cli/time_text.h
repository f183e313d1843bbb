#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "source/store/record.h"

namespace idempotency::cli {

// For people: the two largest units, such as "3d 4h", "2h 5m", "12s", "0.4s".
std::string shownDuration(std::chrono::milliseconds duration);

// "90s", "5m", "2h", "1d", or a bare number of seconds. None for anything else and for more than
// ten years.
[[nodiscard]] std::optional<std::chrono::milliseconds> parseDuration(std::string_view text);

// UTC: "2026-11-18T20:01:02Z".
std::string shownTime(store::StoreTime time);

}  // namespace idempotency::cli
