#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace idempotency::postgres {

// A file of sql/, as it was when this program was built.
struct SqlFile {
  std::string_view name;
  std::string_view text;
};

struct Migration {
  int version = 0;
  std::string_view name;    // "0001_records.sql".
  int compatible_with = 0;  // The oldest module, by the schema version it was built for, that works
                            // with the schema that this makes.
  std::string_view sql;
};

// What this program carries; in the generated migrations_data.cc.
[[nodiscard]] std::span<const SqlFile> migrationFiles();
[[nodiscard]] std::string_view privilegesSql();

// Reads numbers and headers. An error if they do not count 1, 2, 3 …, or a header is missing.
[[nodiscard]] absl::StatusOr<std::vector<Migration>> readMigrations(std::span<const SqlFile> files);

// The schema version that this program's statements are written for.
inline constexpr int SchemaVersion = 2;

}  // namespace idempotency::postgres
