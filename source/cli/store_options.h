#pragma once

#include <array>
#include <memory>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "source/cli/arguments.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {

// Which store a command uses. Another way to reach one, such as the operator API, is added here and
// in openStore().
inline constexpr std::array<Option, 4> StoreOptions = {{
    {"conninfo", "CONNINFO", "PostgreSQL: connection string (default: libpq's PG* variables)"},
    {"password-file", "FILE", "PostgreSQL: file that contains the password; - for stdin"},
    {"sqlite", "FILE", "SQLite: the file of the store"},
    {"timeout", "SECONDS", "how long to wait for the store (default: 10)"},
}};

// Opens the store that the options name. Waits for it.
absl::StatusOr<std::unique_ptr<store::OperatorStore>> openStore(const Arguments& arguments);

// Where the store is, for a person: no passwords.
std::string storeName(const Arguments& arguments);

// What a store answered. Its errors become Unavailable, for the exit code.
template <typename Result>
absl::StatusOr<Result> fromStore(absl::StatusOr<Result> result) {
  if (result.ok()) {
    return result;
  }
  return absl::UnavailableError(result.status().message());
}

}  // namespace idempotency::cli
