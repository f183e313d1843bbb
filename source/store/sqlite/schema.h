#pragma once

#include <span>

#include "absl/status/status.h"

#include "bazel/embedded_text.h"
#include "source/store/sqlite/database.h"

namespace idempotency::sqlite {

// The newest version of the tables that this build knows: the number of the last migration.
int knownSchemaVersion();

// Brings the tables up to date in one transaction; safe if several processes do it concurrently. A
// file of another application, or with tables newer than this build, is refused and not changed.
absl::Status migrate(Database& database);

// The same with other migrations. Their names begin with a number, from 1 on without gaps.
absl::Status migrate(Database& database, std::span<const EmbeddedText> migrations);

// Whether the tables are those of this build; changes nothing.
absl::Status checkSchema(Database& database);

}  // namespace idempotency::sqlite
