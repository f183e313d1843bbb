#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

  // A value that is encoded already.
  void encoded(std::string value);

  // For libpq.
  int count() const { return static_cast<int>(values_.size()); }
  const char* const* values() const { return values_.data(); }
  const int* lengths() const { return lengths_.data(); }
  const int* formats() const { return formats_.data(); }

private:
  void add(const char* value, size_t length);

  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
  std::deque<std::string> owned_;  // A deque: what it holds never moves.
};

// Arrays that are filled element by element, side by side. No nulls.
class Arrays {
public:
  // Appends to a column; columns come into being in order.
  void bytes(size_t column, std::string_view value);
  void int16(size_t column, int16_t value);
  void int64(size_t column, int64_t value);

  // Columns that may stay empty.
  void bytesColumn(size_t column);
  void int64Column(size_t column);

  // The smallest and largest value of an int64 column.
  std::pair<int64_t, int64_t> range(size_t column) const;
  // Hands over one column, or all in order.
  void moveColumn(size_t column, Parameters& parameters);
  void moveAll(Parameters& parameters);

private:
  struct Column {
    int32_t type = 0;
    int32_t count = 0;
    std::string elements;
    int64_t smallest = 0;
    int64_t largest = 0;
  };
  Column& at(size_t column, int32_t type);

  std::vector<Column> columns_;
};

}  // namespace idempotency::postgres
