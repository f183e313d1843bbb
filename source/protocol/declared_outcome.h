#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace idempotency::protocol {

// What an upstream declares about its response, in the header or trailer `Idempotency-Outcome`.
enum class DeclaredOutcome : uint8_t {
  None,       // Not declared.
  Invalid,    // An invalid value, or two different values. Counts as Unknown.
  NotRun,     // not-run: nothing was done, and nothing will be.
  Retryable,  // retryable: it failed in such a way that it may run again.
  Completed,  // completed: this response is the operation's result.
  Unknown,    // unknown: whether it ran is not known.
};

// Reads all lines of the field, of headers and trailers together. The value is a Token (RFC 8941)
// in any case; its parameters are ignored. Lines that agree count as one.
[[nodiscard]] DeclaredOutcome parseDeclaredOutcome(std::span<const std::string_view> lines);

}  // namespace idempotency::protocol
