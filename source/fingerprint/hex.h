#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace idempotency::fingerprint {

// Two lower-case hexadecimal digits for each byte.
inline std::string toHex(std::span<const uint8_t> bytes) {
  constexpr char Digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    text += Digits[byte >> 4];
    text += Digits[byte & 15];
  }
  return text;
}

}  // namespace idempotency::fingerprint
