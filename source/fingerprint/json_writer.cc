#include "source/fingerprint/json_writer.h"

#include <algorithm>

#include "source/fingerprint/json_marks.h"
#include "source/fingerprint/number.h"
#include "source/fingerprint/simd.h"

namespace idempotency::fingerprint {
namespace {

bool isNumberByte(char c) {
  return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

const char* findMark(const char* p) {
  for (;; p += Bytes16::Size) {
    if (const uint32_t marks = Bytes16::load(p).below0x20(); marks != 0) {
      return p + firstBit(marks);
    }
  }
}

}  // namespace

void JsonWriter::write(JsonSpan value) {
  writeText(text_ + value.begin, text_ + value.end);
  flush();
}

// Writes up to `end`, or to the end of the member that `p` is in, and tells where that is.
const char* JsonWriter::writeText(const char* p, const char* end) {
  for (;;) {
    p = copyToMark(p, end);
    if (p == end || *p == JsonMark::MemberEnd) {
      return p;
    }
    p = *p == JsonMark::Object ? writeObject(p, end) : writeNumber(p, end);
  }
}

const char* JsonWriter::writeObject(const char* p, const char* end) {
  const char* object_end = p;
  char separator = '{';
  const uint32_t* member = index_.find(static_cast<uint32_t>(p - text_));
  for (bool last = false; !last; ++member) {
    last = (*member & Member::Last) != 0;
    const char* member_end = text_ + (*member & Member::Position);
    if ((*member & Member::Excluded) != 0) {
      member_end = findMark(member_end);
    } else {
      put(separator);
      separator = ',';
      member_end = writeText(member_end, end);
    }
    object_end = std::max(object_end, member_end);
  }
  if (separator == '{') {
    put('{');
  }
  put('}');
  return object_end + 1;
}

const char* JsonWriter::writeNumber(const char* p, const char* end) {
  std::array<char, MaxCanonicalNumber> text;  // Marked ones are shorter than their canonical form.
  text[0] = JsonMark::toNumber(*p);
  // Behind `end` there may be anything, even digits.
  const size_t longest = std::min<size_t>(text.size(), static_cast<size_t>(end - p));
  size_t size = 1;
  for (; size < longest && isNumberByte(p[size]); ++size) {
    text[size] = p[size];
  }
  std::array<char, MaxCanonicalNumber> canonical;
  const size_t canonical_size =
      canonicalNumber({text.data(), size}, NumberRule::Rounded, canonical.data());
  for (size_t i = 0; i < canonical_size; ++i) {
    put(canonical[i]);
  }
  return p + size;
}

// Writes up to a mark or `end` and tells where that is.
const char* JsonWriter::copyToMark(const char* p, const char* end) {
  size_t used = used_;
  for (;; p += Bytes16::Size, used += Bytes16::Size) {
    if (used + Bytes16::Size > buffer_.size()) {
      used_ = used;
      flush();
      used = 0;
    }
    const Bytes16 bytes = Bytes16::load(p);
    bytes.store(buffer_.data() + used);
    const uint32_t marks = bytes.below0x20();
    if (marks != 0 || static_cast<size_t>(end - p) < Bytes16::Size) {
      const size_t left = static_cast<size_t>(end - p);
      const size_t rest =
          marks != 0 ? std::min<size_t>(static_cast<size_t>(firstBit(marks)), left) : left;
      used_ = used + rest;
      return p + rest;
    }
  }
}

void JsonWriter::put(char c) {
  if (used_ == buffer_.size()) {
    flush();
  }
  buffer_[used_++] = c;
}

void JsonWriter::flush() {
  sink_.append({buffer_.data(), used_});
  used_ = 0;
}

}  // namespace idempotency::fingerprint
