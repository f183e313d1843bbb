#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace idempotency::fingerprint {

// The length of the character that starts at `p` with a byte of 0x80 or more; 0 if it is not
// well-formed UTF-8 (Unicode 15, table 3-7: nothing overlong, no surrogates, nothing above
// U+10FFFF). Reads on only while the bytes are well-formed, so any byte below 0x80 after the text
// guards it.
inline size_t utf8Length(const char* p) {
  const auto byte = [p](size_t i) { return static_cast<uint8_t>(p[i]); };
  const auto continues = [&byte](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0xe0) {
    return lead >= 0xc2 && continues(1) ? 2 : 0;
  }
  if (lead < 0xf0) {
    const bool second = lead == 0xe0   ? byte(1) >= 0xa0 && byte(1) <= 0xbf
                        : lead == 0xed ? byte(1) >= 0x80 && byte(1) <= 0x9f
                                       : continues(1);
    return second && continues(2) ? 3 : 0;
  }
  const bool second = lead == 0xf0   ? byte(1) >= 0x90 && byte(1) <= 0xbf
                      : lead == 0xf4 ? byte(1) >= 0x80 && byte(1) <= 0x8f
                                     : lead < 0xf4 && continues(1);
  return second && continues(2) && continues(3) ? 4 : 0;
}

// Writes a character, which must not be a surrogate, and returns its length in bytes: up to 4.
inline size_t utf8Encode(uint32_t code_point, char* out) {
  const auto tail = [code_point](int shift) {
    return static_cast<char>(0x80 | ((code_point >> shift) & 0x3f));
  };
  if (code_point < 0x80) {
    out[0] = static_cast<char>(code_point);
    return 1;
  }
  if (code_point < 0x800) {
    out[0] = static_cast<char>(0xc0 | (code_point >> 6));
    out[1] = tail(0);
    return 2;
  }
  if (code_point < 0x10000) {
    out[0] = static_cast<char>(0xe0 | (code_point >> 12));
    out[1] = tail(6);
    out[2] = tail(0);
    return 3;
  }
  out[0] = static_cast<char>(0xf0 | (code_point >> 18));
  out[1] = tail(12);
  out[2] = tail(6);
  out[3] = tail(0);
  return 4;
}

bool isUtf8(std::string_view text);

}  // namespace idempotency::fingerprint
