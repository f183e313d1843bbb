#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/protocol/record.h"

namespace idempotency {

// The schema that this build writes. It reads this one and all before it.
inline constexpr uint32_t RecordSchema = 1;

// More than any policy lets be stored, headers and framing included.
inline constexpr size_t MaxRecordBytes = 80 << 20;

// The bytes that stores keep: a v1.Record. The same response always gives the same bytes.
std::string serializeResponse(const StoredResponse& response);

// Reads them back. Bytes that are damaged, too many, of a schema that this build does not know, or
// that hold what must never be replayed are an error, in words for an operator that show nothing of
// the content.
[[nodiscard]] absl::StatusOr<StoredResponse> parseResponse(std::string_view bytes);

}  // namespace idempotency
