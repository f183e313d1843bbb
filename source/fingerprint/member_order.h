#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "source/fingerprint/simd.h"

namespace idempotency::fingerprint {

// The order of member names in RFC 8785, section 3.2.3: by UTF-16 code units. Names are compared in
// their canonical JSON form. A name is given by its first byte after the opening quote. It ends at
// the closing quote, and the 16 bytes after that must be readable. A name is plain if it has
// neither escapes nor bytes of 0x80 or more.

// The first bytes of a plain name as a number: a name with a lower number comes first. If two names
// have the same number, their order is not known.
inline uint64_t namePrefix(const char* name) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, name, sizeof(bytes));
  if constexpr (std::endian::native == std::endian::big) {
    bytes = __builtin_bswap64(bytes);
  }
  // The lowest bit of each byte that is a quote. Above the first quote there may be false ones.
  constexpr uint64_t Ones = 0x0101010101010101;
  const uint64_t differs = bytes ^ (Ones * '"');
  const uint64_t quotes = ((differs - Ones) & ~differs & (Ones * 0x80)) >> 7;
  // All bits below the first quote. Without a quote, all but the highest bit, which is zero in
  // plain names.
  const uint64_t before = (quotes ^ (quotes - 1)) >> 1;
  return __builtin_bswap64(bytes & before);
}

// Less than, equal to, or greater than zero if `a` comes before, equals, or comes after `b`.
int comparePlainNames(const char* a, const char* b);
int compareNames(const char* a, const char* b);

// A member of an object: the position of its opening quote, and flags.
struct Member {
  static constexpr uint32_t Excluded = 1U << 30;  // Only its name is there; it is not written.
  static constexpr uint32_t Last = 1U << 31;      // In the order of writing.
  static constexpr uint32_t Position = Excluded - 1;
};

// Sorts members by their names. False if two names are the same. `plain`: all names are plain.
[[nodiscard]] bool sortMembers(const char* text, std::span<uint32_t> members, bool plain);

// The order of the members of small objects with plain names. Arrays often contain objects of the
// same shape, so the last order for this number of members is tried first.
class SmallOrder {
public:
  static constexpr size_t MaxMembers = 16;
  using Prefixes = std::array<uint64_t, MaxMembers>;  // The members' results of namePrefix().

  // Returns the index of the member for each place; null if two names are the same.
  const uint8_t* find(const char* text, std::span<const uint32_t> members,
                      const Prefixes& prefixes);

private:
  using Order = std::array<uint8_t, MaxMembers>;

  uint32_t known_ = 0;  // Bit n: there is a last order of n members.
  std::array<Order, MaxMembers + 1> last_;
};

}  // namespace idempotency::fingerprint
