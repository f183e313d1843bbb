#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "source/protocol/policy.h"

namespace idempotency::protocol {

// The result of checking the header of a max_request_age policy.
enum class RequestAge : uint8_t {
  Missing,     // No line, or more than one.
  Unreadable,  // Neither an HTTP date nor seconds since 1970.
  TooOld,
  TooNew,  // Further in the future than the limit: a clock is wrong, or someone tries to bypass the
           // check.
  Fresh,
};

// `now` in seconds since 1970; `lines` are all lines of the header.
[[nodiscard]] RequestAge judgeRequestAge(const RequestAgeRules& rules,
                                         std::span<const std::string_view> lines, int64_t now);

}  // namespace idempotency::protocol
