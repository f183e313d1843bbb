#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace idempotency::key {

// The longest key that any policy may allow.
inline constexpr size_t KeyLengthLimit = 255;

// The text form of RFC 9562 §4.
inline constexpr size_t UuidLength = 36;

// The syntax of an Idempotency-Key header. Spaces around the value are not part of it (RFC 9110
// §5.5).
enum class KeySyntax : uint8_t {
  Strict,  // RFC 8941 Item whose value is a String: "in quotes", parameters checked and dropped.
  Raw,     // The header's value unchanged, including quotes. Printable ASCII, no comma.
  Either,  // Strict when the value starts with a quote, else Raw.
};

// A route's rules for keys. Lengths are those of the key, without quotes and escapes. Regardless of
// the rules, no key is empty or longer than KeyLengthLimit.
struct KeyRules {
  KeySyntax syntax = KeySyntax::Strict;
  size_t min_length = 16;
  size_t max_length = KeyLengthLimit;
  bool uuid_only = false;  // Hexadecimal digits of either case, any version.

  size_t shortest() const { return std::max<size_t>(min_length, 1); }
  size_t longest() const { return std::min(max_length, KeyLengthLimit); }
};

// Why a header contains no valid key.
enum class KeyProblem : uint8_t {
  Missing,    // No header line.
  TwoLines,   // More than one header line, or one line that is a list: which key counts would be a
              // guess.
  Malformed,  // Not in the syntax that the rules require.
  BadCharacter,  // A byte that is not printable ASCII.
  TooShort,
  TooLong,
  NotUuid,
};

struct KeyRefusal {
  KeyProblem problem = KeyProblem::Malformed;
  size_t length = 0;  // Of the key, in characters; for TooShort and TooLong only.
  bool operator==(const KeyRefusal&) const = default;
};

// A short sentence for an error body. It never contains any part of the key. `rules` are the rules
// that refused it.
std::string describe(const KeyRefusal& refusal, const KeyRules& rules);

// The key that a client sent: opaque printable ASCII, never normalized. Stores its bytes itself, so
// parsing allocates nothing.
class Key {
public:
  // REQUIRES: text.size() <= KeyLengthLimit.
  explicit Key(std::string_view text);
  std::string_view view() const { return {bytes_.data(), length_}; }
  friend bool operator==(const Key& a, const Key& b) { return a.view() == b.view(); }

private:
  std::array<char, KeyLengthLimit> bytes_{};
  uint8_t length_ = 0;
};

using KeyResult = std::variant<KeyRefusal, Key>;

// Reads the key from all lines of the header, in order, as received. Allocates nothing. The time is
// linear in the length of the line that it reads.
[[nodiscard]] KeyResult parseKey(std::span<const std::string_view> lines, const KeyRules& rules);

}  // namespace idempotency::key
