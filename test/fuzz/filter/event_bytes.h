#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "test/fuzz/filter/story.h"

namespace idempotency::fuzz {

// Reads bytes as events: a letter says what happens, the bytes after it how. Every byte means
// something, so no mutation is lost, and inputs can be written by hand: letters for events, digits
// for choices, spaces and line ends between them.
class EventBytes {
public:
  explicit EventBytes(std::string_view bytes) : bytes_(bytes) {}

  bool atEnd() const { return bytes_.empty(); }

  // 'a' to 'z', or ' ' for a byte that stands for no event: upper case counts as lower case, other
  // bytes as the letter that they share their lowest five bits with.
  char event() {
    const uint8_t bits = take() & 0x1f;
    const char event = bits >= 1 && bits <= 26 ? static_cast<char>('a' + bits - 1) : ' ';
    tell({' ', event});
    return event;
  }

  // One of `count` choices: the digit 0 is the first. The first, too, when the input is at its end.
  size_t choice(size_t count) {
    const size_t chosen = bytes_.empty() ? 0 : static_cast<uint8_t>(take() - '0') % count;
    tell({static_cast<char>('0' + chosen)});
    return chosen;
  }

private:
  uint8_t take() {
    const auto byte = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  }

  std::string_view bytes_;
};

}  // namespace idempotency::fuzz
