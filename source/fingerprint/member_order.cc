#include "source/fingerprint/member_order.h"

#include <algorithm>

namespace idempotency {
namespace {

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
      return nameByteOrder(*p_++);
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

template <Compare compare>
bool sortBy(const char* text, std::span<uint32_t> members) {
  const auto name = [text](uint32_t member) { return text + (member & Member::Position) + 1; };
  std::sort(members.begin(), members.end(),
            [name](uint32_t a, uint32_t b) { return compare(name(a), name(b)) < 0; });
  return std::adjacent_find(members.begin(), members.end(), [name](uint32_t a, uint32_t b) {
           return compare(name(a), name(b)) == 0;
         }) == members.end();
}

}  // namespace

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

}  // namespace idempotency
