#pragma once

#include <cstdint>
#include <span>

#include "source/fingerprint/simd.h"

namespace idempotency {

// The order of member names in RFC 8785, section 3.2.3: by UTF-16 code units. Names are compared as
// they stand in canonical JSON. A name is given by its first byte behind the opening quote; it ends
// at the closing quote, and 16 bytes behind that must be readable.

// What a byte counts against another one at the first difference of two names without backslashes.
// The closing quote is the least. UTF-8 sorts like UTF-16, but for characters above U+FFFF (lead
// byte 0xf0 and more): UTF-16 has them as surrogates, below U+E000 to U+FFFF (lead bytes 0xee,
// 0xef).
inline int nameByteOrder(char c) {
  const auto byte = static_cast<uint8_t>(c);
  if (byte >= 0xee) {
    return byte >= 0xf0 ? byte - 2 : byte + 5;
  }
  return byte == '"' ? 0 : byte;
}

// Less than, equal to, or greater than zero, as `a` comes before, is, or comes behind `b`. Neither
// name may hold a backslash.
inline int comparePlainNames(const char* a, const char* b) {
  for (;; a += 16, b += 16) {
    const Bytes16 bytes = Bytes16::load(a);
    const uint32_t differ = bytes.equal(Bytes16::load(b)) ^ Bytes16::All;
    const uint32_t quotes = bytes.equal('"');
    if (differ == 0 && quotes == 0) {
      continue;
    }
    const uint32_t first = differ & -differ;
    if (differ == 0 || (quotes & (first - 1)) != 0) {
      return 0;  // Both ended before they differ.
    }
    return nameByteOrder(a[firstBit(differ)]) - nameByteOrder(b[firstBit(differ)]);
  }
}

// The same for any names.
int compareNames(const char* a, const char* b);

// An object's member: where it starts, that is, where its opening quote stands, and what the flags
// say.
struct Member {
  static constexpr uint32_t Excluded = 1U << 30;  // Only its name is there; it is not written.
  static constexpr uint32_t Last = 1U << 31;      // In the order of writing.
  static constexpr uint32_t Position = Excluded - 1;
};

// Sorts members by their names. False if two names are the same. `plain`: no name has a backslash.
bool sortMembers(const char* text, std::span<uint32_t> members, bool plain);

}  // namespace idempotency
