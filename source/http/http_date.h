#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::http {

// IMF-fixdate (RFC 9110 §5.6.7), the only form that is sent today: "Sun, 06 Nov 1994 08:49:37 GMT".
// Both work on seconds since 1970, without clock, locale or time zone.

// Times out of the years 1970 … 9999 are moved to the nearest that can be written.
std::string formatHttpDate(int64_t unix_seconds);

// None for anything but a valid IMF-fixdate from 1970 on whose weekday fits. A leap second counts
// as the next.
[[nodiscard]] std::optional<int64_t> parseHttpDate(std::string_view text);

}  // namespace idempotency::http
