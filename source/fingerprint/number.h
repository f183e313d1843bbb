#pragma once

#include <cstddef>
#include <string_view>

namespace idempotency {

// Numbers of RFC 8785: as ECMAScript prints an IEEE-754 double (ECMA-262, Number::toString).

// No canonical number is longer: -0.0000012345678901234567.
inline constexpr size_t MaxCanonicalNumber = 25;

// Writes a double, at most MaxCanonicalNumber bytes, and tells how many; 0 for NaN and infinities.
size_t canonicalNumber(double value, char* out);

// Writes a JSON number, given as its text, and tells how many bytes that took. 0 if its canonical
// form would be another decimal value than the text (9007199254740993, 1e400,
// 0.1000000000000000055): two different amounts must not become one. Minus zero is zero.
size_t canonicalNumber(std::string_view json_number, char* out);

struct NumberScan {
  const char* end;  // Behind the number, null if there is none.
  bool canonical;   // Surely canonical as it is; if false, ask canonicalNumber().
};

// Reads a number by the grammar of JSON. Any byte that is no part of a number must guard the text.
// At least 8 bytes behind the last byte of the text must be readable.
NumberScan scanNumber(const char* p);

}  // namespace idempotency
