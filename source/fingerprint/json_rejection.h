#pragma once

#include <cstdint>
#include <string_view>

namespace idempotency {

// Why a body that is said to be JSON is compared by its bytes.
enum class JsonRejection : uint8_t {
  None,       // It is not.
  Malformed,  // Not JSON by RFC 8259; a byte order mark or anything behind the value counts, too.
  BadUtf8,    // A string is not UTF-8.
  LoneSurrogate,  // An escape (\ud800) that stands for no character.
  DuplicateName,  // An object has two members of one name: readers disagree which one counts.
  InexactNumber,  // As a double, a number would be another one than its text says.
  TooDeep,        // Nested deeper than MaxJsonDepth.
  TooLarge,       // Longer than MaxJsonSize.
};

// For people: "two members of one name".
std::string_view describe(JsonRejection rejection);

}  // namespace idempotency
