#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "source/fingerprint/simd.h"

namespace idempotency {

// Reads a text and writes a shorter one over it. Most of what is read stays as it is, so that bytes
// are moved in runs, and not at all until the first byte is dropped:
//
//   | written: final | dropped | kept: read, stays, not yet moved | unread |
//   begin()          written_  kept_                              read_
//
// Positions count bytes of the new text from its start; they are those that text will have once
// moved.
class TextRewriter {
public:
  // Bytes behind the text that must be readable and writable; the first one must be zero.
  static constexpr size_t Padding = 32;

  TextRewriter(char* text, size_t size)
      : begin_(text), written_(text), kept_(text), read_(text), end_(text + size) {}

  char* begin() const { return begin_; }
  char* read() const { return read_; }
  bool atEnd() const { return read_ == end_; }
  char next() const { return *read_; }

  // Of the next byte to be read.
  uint32_t position() const { return static_cast<uint32_t>((read_ - kept_) + (written_ - begin_)); }

  // Reads on and keeps what was read.
  void keep(size_t count) { read_ += count; }
  void keepTo(char* p) { read_ = p; }

  // Moves what is kept to its final place. After that all text before position() is at its
  // position.
  void settle() {
    const auto size = static_cast<size_t>(read_ - kept_);
    if (written_ != kept_) {
      moveDown(written_, kept_, size);
    }
    written_ += size;
    kept_ = read_;
  }

  // Reads up to `to` and puts other bytes, not more than those, in place of what was read.
  void replace(char* to, const char* bytes, size_t size) {
    settle();
    std::memcpy(written_, bytes, size);
    written_ += size;
    read_ = kept_ = to;
  }
  void drop(size_t count) { replace(read_ + count, "", 0); }

  // Whether what was read from `p` on is still there, that is, nothing since was replaced or
  // settled.
  bool isKept(const char* p) const { return kept_ <= p; }

  // Forgets all text from that position on; what stands before it must be settled.
  void rewind(uint32_t position) {
    written_ = begin_ + position;
    kept_ = read_;
  }

  void skipSpace() {
    if (static_cast<unsigned char>(*read_) <= ' ') {
      dropSpace();
    }
  }

private:
  void dropSpace() {
    settle();
    while (isSpace(*read_)) {
      const uint32_t other = Bytes16::load(read_).notSpace();
      read_ += other != 0 ? firstBit(other) : 16;
    }
    kept_ = read_;
  }

  static bool isSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

  // `from` is above `to`, by less than 16 bytes at first, in most texts by more soon.
  static void moveDown(char* to, const char* from, size_t size) {
    constexpr size_t Step = 16;
    if (static_cast<size_t>(from - to) < Step) {
      std::memmove(to, from, size);
      return;
    }
    // Up to 15 bytes too many are moved: they end before from + size, where nothing is needed any
    // more.
    for (size_t done = 0; done < size; done += Step) {
      Bytes16::load(from + done).store(to + done);
    }
  }

  char* const begin_;
  char* written_;
  char* kept_;
  char* read_;
  char* const end_;
};

}  // namespace idempotency
