#include "source/config/duration_text.h"

#include <charconv>
#include <cstdlib>
#include <fmt/format.h>

namespace idempotency::config {
namespace {

constexpr int64_t MaxSeconds = 315'576'000'000;  // google.protobuf.Duration's own bound.
constexpr size_t MaxDecimals = 9;

// Digits only: no sign, no space.
std::optional<int64_t> readDigits(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (text.empty() || text[0] == '-' || result.ec != std::errc() || result.ptr != end) {
    return std::nullopt;
  }
  return number;
}

std::optional<int32_t> readDecimals(std::string_view text) {
  if (text.size() > MaxDecimals) {
    return std::nullopt;
  }
  auto nanos = readDigits(text);
  for (size_t i = text.size(); nanos.has_value() && i < MaxDecimals; ++i) {
    *nanos *= 10;
  }
  return nanos;
}

}  // namespace

std::optional<DurationParts> parseDuration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) {
    text.remove_prefix(1);
  }
  if (!text.ends_with('s')) {
    return std::nullopt;
  }
  text.remove_suffix(1);
  const size_t dot = text.find('.');
  const auto seconds = readDigits(text.substr(0, dot));
  const auto nanos = dot == std::string_view::npos ? std::optional<int32_t>(0)
                                                   : readDecimals(text.substr(dot + 1));
  if (!seconds.has_value() || !nanos.has_value() || *seconds > MaxSeconds) {
    return std::nullopt;
  }
  const int sign = negative ? -1 : 1;
  return DurationParts{sign * *seconds, sign * *nanos};
}

std::string formatDuration(std::chrono::milliseconds duration) {
  const int64_t count = duration.count();
  std::string text = fmt::format("{}{}", count < 0 ? "-" : "", std::abs(count) / 1000);
  if (count % 1000 != 0) {
    text += fmt::format(".{:03}", std::abs(count) % 1000);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + "s";
}

}  // namespace idempotency::config
