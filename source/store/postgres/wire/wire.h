#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "source/store/record.h"

namespace idempotency::postgres {

// PostgreSQL's binary formats: integers in network order.
void appendInt16(std::string& out, int16_t value);
void appendInt32(std::string& out, int32_t value);
void appendInt64(std::string& out, int64_t value);

// 0 if the size is another than that of the type.
[[nodiscard]] int16_t readInt16(std::string_view bytes);
[[nodiscard]] int32_t readInt32(std::string_view bytes);
[[nodiscard]] int64_t readInt64(std::string_view bytes);

// timestamptz is microseconds since 2000.
[[nodiscard]] store::StoreTime toStoreTime(int64_t timestamptz);

}  // namespace idempotency::postgres
