#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace idempotency {

// How a field line reads as an Item whose value is a String (RFC 8941 §4.2.3, §4.2.5).
enum class StringItemStatus : uint8_t {
  Malformed,  // No Item, or an Item of another type. First, so that a zeroed value refuses.
  List,       // A String and then a comma: a list, or header lines that were joined on the way.
  Ok,
};

struct StringItem {
  StringItemStatus status = StringItemStatus::Malformed;
  size_t length = 0;  // Of the String's value, also where `value` was too small for it. Ok only.
};

// Reads a field line. The String's value, without quotes and escapes, goes into `value` as far as
// it fits. Parameters are held to their grammar and dropped; their values may be of any bare type
// of RFC 8941 and of RFC 9651 (Date, Display String). Reads each byte a fixed number of times and
// allocates nothing.
[[nodiscard]] StringItem parseStringItem(std::string_view line, std::span<char> value);

// Writes a String as RFC 8941 §4.1.6 says; none if a byte is not printable ASCII.
[[nodiscard]] std::optional<std::string> serializeString(std::string_view value);

// Space to tilde: what a String, and a key of any syntax, may hold.
constexpr bool isPrintableAscii(char c) {
  return c >= 0x20 && c <= 0x7e;
}

}  // namespace idempotency
