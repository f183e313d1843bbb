#pragma once

#include <array>
#include <cstdint>

#include "source/fingerprint/byte_sink.h"
#include "source/fingerprint/json_reader.h"
#include "source/fingerprint/member_index.h"

namespace idempotency::fingerprint {

// Writes what a JsonReader has read, as the marks say. Recursion is bounded by MaxJsonDepth.
class JsonWriter {
public:
  JsonWriter(const char* text, const MemberIndex& index, ByteSink& sink)
      : text_(text), index_(index), sink_(sink) {}

  // A whole value of the text. The 16 bytes after it must be readable.
  void write(JsonSpan value);

private:
  const char* writeText(const char* p, const char* end);
  const char* writeObject(const char* p, const char* end);
  const char* writeNumber(const char* p, const char* end);
  const char* copyToMark(const char* p, const char* end);
  void put(char c);
  void flush();

  const char* const text_;
  const MemberIndex& index_;
  ByteSink& sink_;
  size_t used_ = 0;
  std::array<char, 1024> buffer_;
};

}  // namespace idempotency::fingerprint
