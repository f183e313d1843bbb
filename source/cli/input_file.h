#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace idempotency::cli {

// More than any request body that the filter accepts.
inline constexpr size_t MaxInputSize = size_t{64} << 20;

// The bytes of a file, or of stdin for `-`. Fails, and names the file, if it cannot be read or has
// more than `limit` bytes; of an endless file, no more than that is read.
absl::StatusOr<std::string> readInputFile(std::string_view name, size_t limit = MaxInputSize);

}  // namespace idempotency::cli
