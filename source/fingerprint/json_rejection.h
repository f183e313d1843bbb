#pragma once

#include <cstdint>
#include <string_view>

namespace idempotency::fingerprint {

// Why a body that is declared as JSON is compared by its bytes.
enum class JsonRejection : uint8_t {
  None,           // It is not rejected.
  Malformed,      // Not JSON (RFC 8259), also with a byte order mark or text after the value.
  BadUtf8,        // A string is not UTF-8.
  LoneSurrogate,  // An escape (\ud800) that is not a character.
  DuplicateName,  // An object has the same name twice: parsers disagree which one counts.
  InexactNumber,  // As a double, a number has a different value than its text.
  TooDeep,        // Nested deeper than MaxJsonDepth.
  TooLarge,       // Longer than MaxJsonSize.
};

// For people: "two members of one name".
std::string_view describe(JsonRejection rejection);

}  // namespace idempotency::fingerprint
