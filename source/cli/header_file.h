#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace idempotency::cli {

// The request headers in a file, or on stdin for `-`: "Name: value" on each line; empty lines do
// not count. Their values are secrets, so an error names a line by its number only.
absl::StatusOr<std::vector<std::string>> readHeaderFile(std::string_view name);

}  // namespace idempotency::cli
