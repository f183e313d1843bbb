#include "source/store/postgres/wire/wire.h"

#include <cstring>
#include <endian.h>

namespace idempotency::postgres {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// From 1970 to 2000.
constexpr milliseconds PostgresEpoch{946'684'800'000};

template <typename Integer>
void append(std::string& out, Integer big_endian) {
  char bytes[sizeof(big_endian)];
  std::memcpy(bytes, &big_endian, sizeof(bytes));
  out.append(bytes, sizeof(bytes));
}

template <typename Integer>
Integer read(std::string_view bytes) {
  Integer value = 0;
  if (bytes.size() == sizeof(value)) {
    std::memcpy(&value, bytes.data(), sizeof(value));
  }
  return value;
}

}  // namespace

void appendInt16(std::string& out, int16_t value) {
  append(out, htobe16(static_cast<uint16_t>(value)));
}

void appendInt32(std::string& out, int32_t value) {
  append(out, htobe32(static_cast<uint32_t>(value)));
}

void appendInt64(std::string& out, int64_t value) {
  append(out, htobe64(static_cast<uint64_t>(value)));
}

int16_t readInt16(std::string_view bytes) {
  return static_cast<int16_t>(be16toh(read<uint16_t>(bytes)));
}

int32_t readInt32(std::string_view bytes) {
  return static_cast<int32_t>(be32toh(read<uint32_t>(bytes)));
}

int64_t readInt64(std::string_view bytes) {
  return static_cast<int64_t>(be64toh(read<uint64_t>(bytes)));
}

store::StoreTime toStoreTime(int64_t timestamptz) {
  return store::StoreTime(PostgresEpoch +
                          std::chrono::floor<milliseconds>(microseconds(timestamptz)));
}

}  // namespace idempotency::postgres
