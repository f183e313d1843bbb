#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "source/fingerprint/simd.h"

namespace idempotency {

// The order of member names in RFC 8785, section 3.2.3: by UTF-16 code units. Names are compared as
// they stand in canonical JSON. A name is given by its first byte behind the opening quote; it ends
// at the closing quote, and 16 bytes behind that must be readable. A name is plain if it has
// neither escapes nor bytes from 0x80.

// The first bytes of a plain name as a number: a name with a lower one comes first. Of two names
// with the same one nothing is known.
inline uint64_t namePrefix(const char* name) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, name, sizeof(bytes));
  if constexpr (std::endian::native == std::endian::big) {
    bytes = __builtin_bswap64(bytes);
  }
  // The lowest bit of each byte that is a quote; above the first one there may be false ones.
  constexpr uint64_t Ones = 0x0101010101010101;
  const uint64_t differs = bytes ^ (Ones * '"');
  const uint64_t quotes = ((differs - Ones) & ~differs & (Ones * 0x80)) >> 7;
  // All bits below the first quote. Without a quote it is all but the highest bit: zero in plain
  // names.
  const uint64_t before = (quotes ^ (quotes - 1)) >> 1;
  return __builtin_bswap64(bytes & before);
}

// Less than, equal to, or greater than zero, as `a` comes before, is, or comes behind `b`.
int comparePlainNames(const char* a, const char* b);
int compareNames(const char* a, const char* b);

// An object's member: where it starts, that is, where its opening quote stands, and what the flags
// say.
struct Member {
  static constexpr uint32_t Excluded = 1U << 30;  // Only its name is there; it is not written.
  static constexpr uint32_t Last = 1U << 31;      // In the order of writing.
  static constexpr uint32_t Position = Excluded - 1;
};

// Sorts members by their names. False if two names are the same. `plain`: all names are.
[[nodiscard]] bool sortMembers(const char* text, std::span<uint32_t> members, bool plain);

// The order of the members of small objects with plain names. Arrays often hold objects of one
// shape, so the last order of as many members is tried first.
class SmallOrder {
public:
  static constexpr size_t MaxMembers = 16;
  using Prefixes = std::array<uint64_t, MaxMembers>;  // What namePrefix() gives for the members.

  // Returns which member comes at which place; null if two names are the same.
  const uint8_t* find(const char* text, std::span<const uint32_t> members,
                      const Prefixes& prefixes);

private:
  using Order = std::array<uint8_t, MaxMembers>;

  uint32_t known_ = 0;  // Bit n: there is a last order of n members.
  std::array<Order, MaxMembers + 1> last_;
};

}  // namespace idempotency
