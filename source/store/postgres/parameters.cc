#include "source/store/postgres/parameters.h"

#include <cstring>

#include "source/store/postgres/wire.h"

namespace idempotency::postgres {
namespace {

// Object identifiers of built-in types are fixed.
constexpr int32_t ByteaOid = 17;
constexpr int32_t Int8Oid = 20;

constexpr int Binary = 1;

std::string arrayHeader(int32_t element_type, size_t size) {
  std::string text;
  appendInt32(text, size > 0 ? 1 : 0);  // Dimensions.
  appendInt32(text, 0);                 // No nulls.
  appendInt32(text, element_type);
  if (size > 0) {
    appendInt32(text, static_cast<int32_t>(size));
    appendInt32(text, 1);  // Lower bound.
  }
  return text;
}

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

void Parameters::own(std::string value) {
  owned_.push_back(std::move(value));
  add(owned_.back().data(), owned_.back().size());
}

void Parameters::bytes(std::string_view value) {
  // To libpq no pointer means NULL, and an empty view may have none.
  add(value.empty() ? "" : value.data(), value.size());
}

void Parameters::int16(int16_t value) {
  std::string text;
  appendInt16(text, value);
  own(std::move(text));
}

void Parameters::int32(int32_t value) {
  std::string text;
  appendInt32(text, value);
  own(std::move(text));
}

void Parameters::int64(int64_t value) {
  std::string text;
  appendInt64(text, value);
  own(std::move(text));
}

void Parameters::int64(std::optional<int64_t> value) {
  if (value.has_value()) {
    int64(*value);
  } else {
    null();
  }
}

void Parameters::boolean(bool value) {
  own(std::string(1, value ? '\1' : '\0'));
}

void Parameters::null() {
  add(nullptr, 0);
}

void Parameters::bytesArray(const std::vector<std::string_view>& values) {
  std::string text = arrayHeader(ByteaOid, values.size());
  for (const std::string_view value : values) {
    appendInt32(text, static_cast<int32_t>(value.size()));
    text.append(value);
  }
  own(std::move(text));
}

void Parameters::int64Array(const std::vector<int64_t>& values) {
  std::string text = arrayHeader(Int8Oid, values.size());
  for (const int64_t value : values) {
    appendInt32(text, sizeof(value));
    appendInt64(text, value);
  }
  own(std::move(text));
}

}  // namespace idempotency::postgres
