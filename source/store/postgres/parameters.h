#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::postgres {

// The values of one statement, in the binary format. Views are kept, not copied: what they show
// must outlive the call that sends the statement.
class Parameters {
public:
  void clear();

  void bytes(std::string_view value);  // bytea or text.
  void int16(int16_t value);
  void int32(int32_t value);
  void int64(int64_t value);
  void boolean(bool value);
  void null();
  void int64(std::optional<int64_t> value);

  // One-dimensional arrays without nulls.
  void bytesArray(const std::vector<std::string_view>& values);
  void int64Array(const std::vector<int64_t>& values);

  // For libpq.
  int count() const { return static_cast<int>(values_.size()); }
  const char* const* values() const { return values_.data(); }
  const int* lengths() const { return lengths_.data(); }
  const int* formats() const { return formats_.data(); }

private:
  void own(std::string value);
  void add(const char* value, size_t length);

  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
  std::deque<std::string> owned_;  // A deque: what it holds never moves.
};

}  // namespace idempotency::postgres
