#include "source/protocol/request_age.h"

#include <charconv>

#include "source/http/http_date.h"

namespace idempotency::protocol {
namespace {

constexpr size_t MaxDigits = 12;  // Beyond the year 9999: no overflow below.

std::optional<int64_t> readTime(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return http::parseHttpDate(text);
  }
  int64_t seconds = 0;
  if (text.size() > MaxDigits ||
      std::from_chars(text.data(), text.data() + text.size(), seconds).ec != std::errc()) {
    return std::nullopt;
  }
  return seconds;
}

}  // namespace

RequestAge judgeRequestAge(const RequestAgeRules& rules, std::span<const std::string_view> lines,
                           int64_t now) {
  if (lines.size() != 1) {
    return RequestAge::Missing;
  }
  const auto sent = readTime(lines.front());
  if (!sent.has_value()) {
    return RequestAge::Unreadable;
  }
  const std::chrono::seconds age(now - *sent);
  if (age > rules.limit) {
    return RequestAge::TooOld;
  }
  return age < -rules.limit ? RequestAge::TooNew : RequestAge::Fresh;
}

}  // namespace idempotency::protocol
