#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace idempotency::fingerprint {

// 16 bytes at once. Each query returns a mask: bit i belongs to byte i. x86-64 always has SSE2.
// Elsewhere, plain loops do the same, and compilers vectorize them.
class Bytes16 {
public:
  static constexpr size_t Size = 16;
  static constexpr uint32_t All = 0xffff;

#if defined(__SSE2__)
  static Bytes16 load(const char* p) {
    return Bytes16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  void store(char* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes_);
  }
  uint32_t equal(char c) const {
    return mask(_mm_cmpeq_epi8(bytes_, _mm_set1_epi8(c)));
  }
  uint32_t equal(const Bytes16& other) const {
    return mask(_mm_cmpeq_epi8(bytes_, other.bytes_));
  }

  // Quotes, backslashes, bytes below 0x20, and bytes of 0x80 or more: what a JSON string cannot
  // contain unescaped, or what must be checked.
  uint32_t notPlain() const {
    const __m128i quote = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8('"'));
    const __m128i backslash = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8('\\'));
    const __m128i low = _mm_cmplt_epi8(bytes_, _mm_set1_epi8(0x20));  // Signed: also from 0x80.
    return mask(_mm_or_si128(_mm_or_si128(quote, backslash), low));
  }
  uint32_t below0x20() const {
    const __m128i limit = _mm_set1_epi8(0x1f);
    return mask(_mm_cmpeq_epi8(_mm_max_epu8(bytes_, limit), limit));
  }
  uint32_t notSpace() const {
    const __m128i space = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8(' '));
    const __m128i newline = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8('\n'));
    const __m128i cr = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8('\r'));
    const __m128i tab = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8('\t'));
    return mask(_mm_or_si128(_mm_or_si128(space, newline), _mm_or_si128(cr, tab))) ^ All;
  }

private:
  explicit Bytes16(__m128i bytes) : bytes_(bytes) {}
  static uint32_t mask(__m128i bits) {
    return static_cast<uint32_t>(_mm_movemask_epi8(bits));
  }

  __m128i bytes_;
#else
  static Bytes16 load(const char* p) {
    Bytes16 loaded;
    std::memcpy(loaded.bytes_, p, sizeof(loaded.bytes_));
    return loaded;
  }
  void store(char* p) const {
    std::memcpy(p, bytes_, sizeof(bytes_));
  }
  uint32_t equal(char c) const {
    return mask([this, c](int i) { return bytes_[i] == static_cast<uint8_t>(c); });
  }
  uint32_t equal(const Bytes16& other) const {
    return mask([this, &other](int i) { return bytes_[i] == other.bytes_[i]; });
  }
  uint32_t notPlain() const {
    return mask([this](int i) {
      return bytes_[i] == '"' || bytes_[i] == '\\' || bytes_[i] < 0x20 || bytes_[i] >= 0x80;
    });
  }
  uint32_t below0x20() const {
    return mask([this](int i) { return bytes_[i] < 0x20; });
  }
  uint32_t notSpace() const {
    return mask([this](int i) {
      return bytes_[i] != ' ' && bytes_[i] != '\n' && bytes_[i] != '\r' && bytes_[i] != '\t';
    });
  }

private:
  Bytes16() = default;
  template <class Predicate>
  static uint32_t mask(Predicate predicate) {
    uint32_t bits = 0;
    for (int i = 0; i < 16; ++i) {
      bits |= static_cast<uint32_t>(predicate(i)) << i;
    }
    return bits;
  }

  uint8_t bytes_[16];
#endif
};

// How many bytes copyWide() may read and write beyond the requested size.
inline constexpr size_t WideSlack = 2 * Bytes16::Size;

// Copies at least `size` bytes. For few bytes, this is faster than an exact copy. The target must
// not be after the source and before its end.
inline void copyWide(char* to, const char* from, size_t size) {
  const Bytes16 first = Bytes16::load(from);
  const Bytes16 second = Bytes16::load(from + Bytes16::Size);
  first.store(to);
  second.store(to + Bytes16::Size);
  if (size > WideSlack) {
    std::memmove(to + WideSlack, from + WideSlack, size - WideSlack);
  }
}

inline int firstBit(uint32_t mask) {
  return std::countr_zero(mask);
}

}  // namespace idempotency::fingerprint
