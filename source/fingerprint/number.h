#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace idempotency {

// Numbers of RFC 8785: as ECMAScript prints an IEEE-754 double (ECMA-262, Number::toString).

// No canonical number is longer: -0.0000012345678901234567.
inline constexpr size_t MaxCanonicalNumber = 25;

// Writes a double, at most MaxCanonicalNumber bytes, and tells how many; 0 for NaN and infinities.
size_t canonicalNumber(double value, char* out);

// What becomes of a number whose canonical form would be another decimal value than its text:
// 9007199254740993, 1e400, 0.1000000000000000055.
enum class NumberRule : uint8_t {
  Exact,    // It has none: two different amounts must not become one.
  Rounded,  // It is rounded, as RFC 8785 says, unless it is too large or too small for any double.
};

// Writes a JSON number, given as its text, at most MaxCanonicalNumber bytes, and tells how many; 0
// if it has no canonical form. Minus zero is zero: as decimal values they are the same.
size_t canonicalNumber(std::string_view json_number, NumberRule rule, char* out);

struct NumberScan {
  const char* end;  // Behind the number, null if there is none.
  bool canonical;   // Surely canonical as it is; if false, ask canonicalNumber().
};

// Reads a number by the grammar of JSON. Any byte that is no part of a number must guard the text.
// At least 8 bytes behind the last byte of the text must be readable.
NumberScan scanNumber(const char* p);

}  // namespace idempotency
