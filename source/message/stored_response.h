#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/protocol/record.h"

namespace idempotency::message {

// More than any policy allows to store, including headers and framing.
inline constexpr size_t MaxStoredResponseBytes = 80 << 20;

// The bytes that stores keep: a v1.StoredResponse. Equal responses give equal bytes.
std::string serializeResponse(const protocol::StoredResponse& response);

// Reads them back. It is an error if the bytes are damaged, too many, of a schema that this build
// does not know, or contain what must never be replayed. The message is for an operator and shows
// nothing of the content.
[[nodiscard]] absl::StatusOr<protocol::StoredResponse> parseResponse(std::string_view bytes);

}  // namespace idempotency::message
