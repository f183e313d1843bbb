#pragma once

namespace idempotency::fingerprint {

// Canonical JSON contains no bytes below 0x20. In a text that was read, such bytes mark the places
// where the writer must do more than copy. Each replaces the one byte that it implies.
struct JsonMark {
  static constexpr char Object =
      0x01;  // For `{`: the members come in the order of the MemberIndex.
  static constexpr char MemberEnd = 0x02;  // For `,` or `}` behind each member of such an object.

  // For the first byte of a number whose canonical form is longer than its text (1e20): it is kept
  // as text, so that what was read never grows.
  static constexpr char Minus = 0x03;
  static constexpr char Digit = 0x10;  // And the digit.

  static constexpr char ofNumber(char first) {
    return first == '-' ? Minus : static_cast<char>(Digit + (first - '0'));
  }
  static constexpr char toNumber(char mark) {
    return mark == Minus ? '-' : static_cast<char>('0' + (mark - Digit));
  }
};

}  // namespace idempotency::fingerprint
