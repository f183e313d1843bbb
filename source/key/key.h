#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace idempotency {

// The longest key that any policy may allow.
inline constexpr size_t KeyLengthLimit = 255;

// What an Idempotency-Key header may look like. Spaces around the value are no part of it (RFC 9110
// §5.5).
enum class KeySyntax : uint8_t {
  Strict,  // RFC 8941 Item whose value is a String: "in quotes", parameters checked and dropped.
  Raw,     // The header's value as it stands, no quotes taken off. Printable ASCII, no comma.
  Either,  // Strict when the value starts with a quote, else Raw.
};

// A route's rules for keys. Lengths count the key, after quotes and escapes are gone. Whatever the
// rules say, no key is empty or longer than KeyLengthLimit.
struct KeyRules {
  KeySyntax syntax = KeySyntax::Strict;
  size_t min_length = 16;
  size_t max_length = 255;
  bool uuid_only =
      false;  // The text form of RFC 9562 §4, hexadecimal digits of either case, any version.
};

// Why a header gave no key.
enum class KeyProblem : uint8_t {
  Missing,    // No header line.
  TwoLines,   // More than one header line, or one line that is a list: which key counts would be a
              // guess.
  Malformed,  // Not of the syntax that the rules ask for.
  BadCharacter,  // A byte that is not printable ASCII.
  TooShort,
  TooLong,
  NotUuid,
};

// A short sentence for an error body; never contains any part of the key.
std::string_view describe(KeyProblem problem);

// The key that a client sent: opaque printable ASCII, never normalised. Holds its bytes itself, so
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

using KeyResult = std::variant<KeyProblem, Key>;

// Reads the key from all lines of the header, in order, as received. Allocates nothing. Takes time
// linear in the one line that it reads.
[[nodiscard]] KeyResult parseKey(std::span<const std::string_view> lines, const KeyRules& rules);

}  // namespace idempotency
