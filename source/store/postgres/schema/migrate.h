#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency::postgres {

struct MigrateOptions {
  std::string conninfo;
  std::optional<std::string> password;
  std::optional<int> to;  // None: the newest one of this program.
  bool dry_run = false;   // Prints what would be run, and changes nothing.
  // How long each migration waits for a table that is in use. Requests wait behind it in the
  // meantime.
  std::chrono::milliseconds lock_timeout{5000};
  // How long it waits for another migration to end.
  std::chrono::milliseconds turn_timeout{60'000};
};

// Brings the database's schema up to date: forward only, each migration in its own transaction.
// Safe to repeat; concurrent runs wait for each other. Blocks. `say` gets lines for a person, or
// with dry_run the SQL itself.
[[nodiscard]] absl::Status migrate(const MigrateOptions& options,
                                   const std::function<void(std::string_view)>& say);

}  // namespace idempotency::postgres
