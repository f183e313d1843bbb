#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idempotency::key {

// How a field line parses as an Item whose value is a String (RFC 8941 §4.2.3, §4.2.5).
enum class StringItemStatus : uint8_t {
  Malformed,  // Not an Item, or an Item of another type. First, so that zero refuses.
  List,       // A String and then a comma: a list, or header lines that were joined on the way.
  Ok,
};

struct StringItem {
  StringItemStatus status = StringItemStatus::Malformed;
  size_t length = 0;  // Of the String's value, also where `value` was too small for it. Ok only.
};

// Parses a field line. The value of the String, without quotes and escapes, is written to `value`
// as far as it fits. Parameters are checked against their grammar and dropped. Their values may be
// of any bare type of RFC 8941 and RFC 9651 (Date, Display String). Reads each byte a fixed number
// of times and allocates nothing.
[[nodiscard]] StringItem parseStringItem(std::string_view line, std::span<char> value);

// A bare item: Tokens and Strings by their value, everything else by its text.
struct BareItem {
  enum class Kind : uint8_t { Token, String, Other };
  Kind kind = Kind::Other;
  std::string text;  // Of a String without quotes and escapes. A parameter without a value: "?1".
  bool operator==(const BareItem&) const = default;
};

// A member of a List (RFC 8941 §3.1) with its parameters in order, each name once: the last value
// counts (§4.2.3.2). The items of an inner list are checked against their grammar and dropped.
struct ListMember {
  bool inner_list = false;
  BareItem item;  // Empty for an inner list.
  std::vector<std::pair<std::string, BareItem>> parameters;

  // Null if there is no such parameter.
  const BareItem* parameter(std::string_view name) const;
};

// Parses a List from the lines of a field (RFC 8941 §4.2.1); none if it is not one. No lines, or
// empty lines, are an empty List.
[[nodiscard]] std::optional<std::vector<ListMember>> parseList(
    std::span<const std::string_view> lines);

// Writes a String according to RFC 8941 §4.1.6; none if a byte is not printable ASCII.
[[nodiscard]] std::optional<std::string> serializeString(std::string_view value);

// Space to tilde: what a String, and a key in any syntax, may contain.
constexpr bool isPrintableAscii(char c) {
  return c >= 0x20 && c <= 0x7e;
}

}  // namespace idempotency::key
