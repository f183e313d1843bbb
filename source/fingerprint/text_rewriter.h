#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "source/fingerprint/simd.h"

namespace idempotency::fingerprint {

// Overwrites a text with a shorter one while it is being read. Most of the text stays as it is, so
// bytes are moved in runs, and not at all until the first byte is dropped:
//
//   | final text | gap: dropped | kept: read, stays, not yet moved | unread |
//   begin()                     kept_                              p
//
// The reader holds `p`, the next byte to read, and passes it in. It never goes back. Positions
// count the bytes of the new text from its start; they refer to the final place of the text.
class TextRewriter {
public:
  // Bytes after the text that must be readable and writable; the first one must be zero.
  static constexpr size_t Padding = WideSlack;

  explicit TextRewriter(char* text) : begin_(text), kept_(text) {}

  char* begin() const { return begin_; }

  uint32_t position(const char* p) const { return static_cast<uint32_t>(p - begin_ - gap_); }

  // The current location of the text from that position to `p`, in one piece. It may be changed,
  // but not resized.
  char* textFrom(uint32_t position, char* p) {
    if (position < this->position(kept_)) {
      settle(p);
      return begin_ + position;
    }
    return begin_ + position + gap_;
  }

  // Moves what is kept to its final place. After that, all text before position(p) is in place.
  void settle(char* p) {
    if (gap_ != 0) {
      moveDown(static_cast<size_t>(p - kept_));
    }
    kept_ = p;
  }

  // Replaces the bytes from `p` to `to` by other bytes, not more than there were. The reader
  // continues at `to`.
  void replace(char* p, char* to, const char* bytes, size_t size) {
    settle(p);
    std::memcpy(p - gap_, bytes, size);
    gap_ += to - p - static_cast<ptrdiff_t>(size);
    kept_ = to;
  }

  // Discards all text from that position on. The text before it must be settled.
  void rewind(uint32_t position, char* p) {
    gap_ = p - begin_ - static_cast<ptrdiff_t>(position);
    kept_ = p;
  }

  // Drops JSON white space and returns its end.
  char* skipSpace(char* p) { return static_cast<unsigned char>(*p) > ' ' ? p : dropSpace(p); }

private:
  char* dropSpace(char* p) {
    settle(p);
    while (isSpace(*p)) {
      const uint32_t other = Bytes16::load(p).notSpace();
      p += other != 0 ? static_cast<size_t>(firstBit(other)) : Bytes16::Size;
    }
    gap_ += p - kept_;
    kept_ = p;
    return p;
  }

  static bool isSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

  void moveDown(size_t size) {
    if (static_cast<size_t>(gap_) < WideSlack) {
      std::memmove(kept_ - gap_, kept_, size);  // An exact copy: unread text follows directly.
    } else {
      copyWide(kept_ - gap_, kept_, size);
    }
  }

  char* const begin_;
  char* kept_;
  ptrdiff_t gap_ = 0;
};

}  // namespace idempotency::fingerprint
