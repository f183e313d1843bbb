#include "source/store/postgres/wire/parameters.h"

#include <algorithm>

#include "source/store/postgres/wire/wire.h"

namespace idempotency::postgres {
namespace {

// Object identifiers of built-in types are fixed.
constexpr int32_t ByteaOid = 17;
constexpr int32_t Int2Oid = 21;
constexpr int32_t Int8Oid = 20;

constexpr int Binary = 1;
constexpr size_t ArrayHeaderSize = 20;

}  // namespace

void Parameters::clear() {
  values_.clear();
  lengths_.clear();
  formats_.clear();
  owned_.clear();
}

void Parameters::add(const char* value, size_t length) {
  values_.push_back(value);
  lengths_.push_back(static_cast<int>(length));
  formats_.push_back(Binary);
}

void Parameters::bytes(std::string_view value) {
  // To libpq no pointer means NULL, and an empty view may have none.
  add(value.empty() ? "" : value.data(), value.size());
}

void Parameters::int16(int16_t value) {
  std::string text;
  appendInt16(text, value);
  encoded(std::move(text));
}

void Parameters::int32(int32_t value) {
  std::string text;
  appendInt32(text, value);
  encoded(std::move(text));
}

void Parameters::int64(int64_t value) {
  std::string text;
  appendInt64(text, value);
  encoded(std::move(text));
}

void Parameters::int64(std::optional<int64_t> value) {
  if (value.has_value()) {
    int64(*value);
  } else {
    null();
  }
}

void Parameters::boolean(bool value) {
  encoded(std::string(1, value ? '\1' : '\0'));
}

void Parameters::null() {
  add(nullptr, 0);
}

void Parameters::encoded(std::string value) {
  owned_.push_back(std::move(value));
  add(owned_.back().data(), owned_.back().size());
}

Arrays::Column& Arrays::at(size_t column, int32_t type) {
  if (column >= columns_.size()) {
    columns_.resize(column + 1);
  }
  columns_[column].type = type;
  ++columns_[column].count;
  return columns_[column];
}

void Arrays::bytesColumn(size_t column) {
  --at(column, ByteaOid).count;
}

void Arrays::int64Column(size_t column) {
  --at(column, Int8Oid).count;
}

void Arrays::bytes(size_t column, std::string_view value) {
  std::string& elements = at(column, ByteaOid).elements;
  appendInt32(elements, static_cast<int32_t>(value.size()));
  elements.append(value);
}

void Arrays::int16(size_t column, int16_t value) {
  std::string& elements = at(column, Int2Oid).elements;
  appendInt32(elements, sizeof(value));
  appendInt16(elements, value);
}

void Arrays::int64(size_t column, int64_t value) {
  Column& entry = at(column, Int8Oid);
  appendInt32(entry.elements, sizeof(value));
  appendInt64(entry.elements, value);
  entry.smallest = entry.count == 1 ? value : std::min(entry.smallest, value);
  entry.largest = entry.count == 1 ? value : std::max(entry.largest, value);
}

std::pair<int64_t, int64_t> Arrays::range(size_t column) const {
  return {columns_[column].smallest, columns_[column].largest};
}

void Arrays::moveColumn(size_t column, Parameters& parameters) {
  const Column& entry = columns_[column];
  std::string text;
  text.reserve(ArrayHeaderSize + entry.elements.size());
  appendInt32(text, 1);  // Dimensions.
  appendInt32(text, 0);  // No nulls.
  appendInt32(text, entry.type);
  appendInt32(text, entry.count);
  appendInt32(text, 1);  // Lower bound.
  text.append(entry.elements);
  parameters.encoded(std::move(text));
}

void Arrays::moveAll(Parameters& parameters) {
  for (size_t column = 0; column < columns_.size(); ++column) {
    moveColumn(column, parameters);
  }
}

}  // namespace idempotency::postgres
