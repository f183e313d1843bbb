#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace idempotency::fingerprint {

// Numbers of RFC 8785: as ECMAScript prints an IEEE-754 double (ECMA-262, Number::toString).

// No canonical number is longer: -0.0000012345678901234567.
inline constexpr size_t MaxCanonicalNumber = 25;

// Writes a double, at most MaxCanonicalNumber bytes, and returns how many; 0 for NaN and
// infinities.
size_t canonicalNumber(double value, char* out);

// How to treat a number whose canonical form has a different decimal value than its text:
// 9007199254740993, 1e400, 0.1000000000000000055.
enum class NumberRule : uint8_t {
  Exact,    // It has none: two different amounts must not become equal.
  Rounded,  // It is rounded, as in RFC 8785, unless it is out of the range of a double.
};

// Writes a JSON number, given as text, at most MaxCanonicalNumber bytes, and returns how many; 0 if
// it has no canonical form. Minus zero is zero, because their decimal values are the same.
size_t canonicalNumber(std::string_view json_number, NumberRule rule, char* out);

// The end of a sequence of digits. Another byte must follow them, and 8 bytes must be readable from
// there.
[[gnu::always_inline]] inline const char* skipDigits(const char* p) {
  for (;; p += sizeof(uint64_t)) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, p, sizeof(bytes));
    if constexpr (std::endian::native == std::endian::big) {
      bytes = __builtin_bswap64(bytes);
    }
    // The upper half of a digit is 3, also after adding 6. No carry can reach a byte before the
    // first one that is not a digit, and what follows that one does not matter.
    constexpr uint64_t Upper = 0xf0f0f0f0f0f0f0f0;
    constexpr uint64_t Threes = 0x3030303030303030;
    const uint64_t other =
        ((bytes & Upper) ^ Threes) | (((bytes + 0x0606060606060606) & Upper) ^ Threes);
    if (other != 0) {
      return p + std::countr_zero(other) / 8;
    }
  }
}

struct NumberScan {
  const char* end;  // After the number; null if there is none.
  bool canonical;   // Certainly canonical; if false, call canonicalNumber().
};

// Reads a number by the grammar of JSON. The text must be guarded as for skipDigits().
[[gnu::always_inline]] inline NumberScan scanNumber(const char* p) {
  constexpr NumberScan Malformed = {nullptr, false};
  // Every decimal number of up to 15 digits survives the conversion to a double and back.
  constexpr ptrdiff_t SafeDigits = 15;
  const bool negative = *p == '-';
  const char* const digits = p + (negative ? 1 : 0);
  p = *digits == '0' ? digits + 1 : skipDigits(digits);
  if (p == digits) {
    return Malformed;
  }
  bool canonical = !(negative && *digits == '0');
  if (*p == '.') {
    const char* const fraction = p + 1;
    p = skipDigits(fraction);
    if (p == fraction) {
      return Malformed;
    }
    // After 0.00000 the canonical form has an exponent.
    canonical = p[-1] != '0' && !(*digits == '0' && p - fraction > 5);
  }
  canonical = canonical && p - digits <= SafeDigits;
  if ((*p | 0x20) == 'e') {
    const char* const exponent = p + (p[1] == '+' || p[1] == '-' ? 2 : 1);
    p = skipDigits(exponent);
    return p == exponent ? Malformed : NumberScan{p, false};
  }
  return {p, canonical};
}

}  // namespace idempotency::fingerprint
