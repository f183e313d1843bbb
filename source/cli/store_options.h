#pragma once

#include <array>
#include <memory>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "source/cli/api_options.h"
#include "source/cli/arguments.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {

inline constexpr std::array<Option, 3> OwnStoreOptions = {{
    {"conninfo", "CONNINFO", "PostgreSQL: connection string (default: libpq's PG* variables)"},
    {"password-file", "FILE", "PostgreSQL: file that contains the password; - for stdin"},
    {"sqlite", "FILE", "SQLite: the file of the store"},
}};
inline constexpr std::array<Option, 1> TimeoutOption = {{
    {"timeout", "SECONDS", "how long to wait for the store (default: 10)"},
}};
// Which store a command uses, and how it gets there. Another way is added here and in openStore().
inline constexpr auto StoreOptions = joinOptions(OwnStoreOptions, ApiOptions, TimeoutOption);

// Opens the store that the options name. Waits for it.
absl::StatusOr<std::unique_ptr<store::OperatorStore>> openStore(const Arguments& arguments);

// Where the store is, for a person: no passwords.
std::string storeName(const Arguments& arguments);

// What a store answered. Its errors become Unavailable, for the exit code, unless what the options
// name cannot be used at all.
template <typename Result>
absl::StatusOr<Result> fromStore(absl::StatusOr<Result> result) {
  if (result.ok() || absl::IsInvalidArgument(result.status())) {
    return result;
  }
  return absl::UnavailableError(result.status().message());
}

}  // namespace idempotency::cli
