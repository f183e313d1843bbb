#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "bazel/embedded_text.h"

namespace idempotency::postgres {

struct Migration {
  int version = 0;
  std::string_view name;    // "0001_records.sql".
  int compatible_with = 0;  // The oldest module, by the schema version it was built for, that works
                            // with the schema that this makes.
  std::string_view sql;
};

// Reads numbers and headers. An error if they do not count 1, 2, 3 …, or a header is missing.
[[nodiscard]] absl::StatusOr<std::vector<Migration>> readMigrations(
    std::span<const EmbeddedText> files);

// The schema version that this program's statements are written for.
inline constexpr int SchemaVersion = 7;

}  // namespace idempotency::postgres
