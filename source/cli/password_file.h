#pragma once

#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace idempotency::cli {

// The password in a file, or on stdin for `-`, without the ends of its last line.
absl::StatusOr<std::string> readPasswordFile(std::string_view name);

}  // namespace idempotency::cli
