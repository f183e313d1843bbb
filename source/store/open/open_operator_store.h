#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include <absl/status/statusor.h>

#include "source/store/operator_store.h"

namespace idempotency::store {

struct PostgresAccess {
  std::string conninfo;  // As libpq reads it; what it lacks comes from the PG* variables.
  std::optional<std::string> password;
  std::chrono::milliseconds timeout{10'000};  // Of each statement, and of connecting.
};
struct SqliteAccess {
  std::string path;
  std::chrono::milliseconds timeout{10'000};  // How long to wait for other processes' locks.
};
using OperatorAccess = std::variant<PostgresAccess, SqliteAccess>;

// Opens a store for an operator, and waits until that is done. Creates and migrates nothing: an
// error if the store is not there or has another schema than this build knows.
[[nodiscard]] absl::StatusOr<std::unique_ptr<OperatorStore>> openOperatorStore(
    const OperatorAccess& access);

}  // namespace idempotency::store
