#include "source/fingerprint/member_order.h"

#include <algorithm>
#include <array>

namespace idempotency::fingerprint {
namespace {

// What a byte counts against another one at the first difference of two names without escapes. The
// closing quote is the least. UTF-8 sorts like UTF-16, but for characters above U+FFFF (lead byte
// 0xf0 and more): UTF-16 has them as surrogates, below U+E000 to U+FFFF (lead bytes 0xee, 0xef).
int byteOrder(char c) {
  const auto byte = static_cast<uint8_t>(c);
  if (byte >= 0xee) {
    return byte >= 0xf0 ? byte - 2 : byte + 5;
  }
  return byte == '"' ? 0 : byte;
}

// Reads a canonical name piece by piece: a byte, or what an escape stands for.
class NameReader {
public:
  explicit NameReader(const char* p) : p_(p) {}

  // The next piece's order; -1 at the end. All that is escaped in canonical JSON is below 0x80.
  int next() {
    if (*p_ == '"') {
      return -1;
    }
    if (*p_ != '\\') {
      return byteOrder(*p_++);
    }
    const char escape = p_[1];
    p_ += 2;
    switch (escape) {
      case 'b':
        return '\b';
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'f':
        return '\f';
      case 'r':
        return '\r';
      case 'u':
        p_ += 4;
        return hexDigit(p_[-2]) * 16 + hexDigit(p_[-1]);
      default:
        return escape;  // A quote or a backslash.
    }
  }

private:
  static int hexDigit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

  const char* p_;
};

using Compare = int (*)(const char*, const char*);

const char* nameAt(const char* text, uint32_t member) {
  return text + (member & Member::Position) + 1;
}

template <Compare compare>
bool sortBy(const char* text, std::span<uint32_t> members) {
  const auto name = [text](uint32_t member) { return text + (member & Member::Position) + 1; };
  std::sort(members.begin(), members.end(),
            [name](uint32_t a, uint32_t b) { return compare(name(a), name(b)) < 0; });
  return std::adjacent_find(members.begin(), members.end(), [name](uint32_t a, uint32_t b) {
           return compare(name(a), name(b)) == 0;
         }) == members.end();
}

// Whether that order brings the prefixes into a strictly rising one.
bool isOrder(const uint64_t* prefixes, const uint8_t* order, size_t count) {
  bool rising = true;
  for (size_t i = 1; i < count; ++i) {
    rising = rising && prefixes[order[i - 1]] < prefixes[order[i]];
  }
  return rising;
}

// Finds the place of each member by counting the ones before it: for few members this is faster
// than sorting by exchange, since it hardly branches. False if two names are the same.
bool makeOrder(const char* text, std::span<const uint32_t> members, const uint64_t* prefixes,
               uint8_t* order) {
  std::array<uint8_t, SmallOrder::MaxMembers> places = {};
  for (size_t i = 1; i < members.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      bool before = prefixes[j] < prefixes[i];
      if (prefixes[j] == prefixes[i]) {
        const int sign = comparePlainNames(nameAt(text, members[j]), nameAt(text, members[i]));
        if (sign == 0) {
          return false;
        }
        before = sign < 0;
      }
      ++places[before ? i : j];
    }
  }
  for (size_t i = 0; i < members.size(); ++i) {
    order[places[i]] = static_cast<uint8_t>(i);
  }
  return true;
}

}  // namespace

int comparePlainNames(const char* a, const char* b) {
  for (;; a += 16, b += 16) {
    const Bytes16 bytes = Bytes16::load(a);
    const uint32_t differ = bytes.equal(Bytes16::load(b)) ^ Bytes16::All;
    const uint32_t quotes = bytes.equal('"');
    if (differ == 0 && quotes == 0) {
      continue;
    }
    if (differ == 0 || (quotes & ((differ & -differ) - 1)) != 0) {
      return 0;  // Both ended before they differ.
    }
    return byteOrder(a[firstBit(differ)]) - byteOrder(b[firstBit(differ)]);
  }
}

int compareNames(const char* a, const char* b) {
  NameReader left(a);
  NameReader right(b);
  for (;;) {
    const int x = left.next();
    const int y = right.next();
    if (x != y || x < 0) {
      return x - y;
    }
  }
}

bool sortMembers(const char* text, std::span<uint32_t> members, bool plain) {
  return plain ? sortBy<comparePlainNames>(text, members) : sortBy<compareNames>(text, members);
}

const uint8_t* SmallOrder::find(const char* text, std::span<const uint32_t> members,
                                const Prefixes& prefixes) {
  const size_t count = members.size();
  uint8_t* const order = last_[count].data();
  if ((known_ >> count & 1) != 0 && isOrder(prefixes.data(), order, count)) {
    return order;
  }
  // Only a whole order may be tried next time: without one, nothing was written there.
  if (!makeOrder(text, members, prefixes.data(), order)) {
    return nullptr;
  }
  known_ |= 1U << count;
  return order;
}

}  // namespace idempotency::fingerprint
