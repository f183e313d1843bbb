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
  std::optional<int> to;  // None: the newest that this program carries.
  bool dry_run = false;   // Says what would be run, and changes nothing.
  // How long each migration waits for a table that is in use. Requests queue up behind it
  // meanwhile.
  std::chrono::milliseconds lock_timeout{5000};
  // How long it waits for another migration to end.
  std::chrono::milliseconds turn_timeout{60'000};
};

// Brings the database's schema up to date: forward only, one transaction for each migration.
// Harmless when nothing is to be done; two at once take turns. Blocks. `say` gets lines for a
// person: with dry_run the SQL itself.
[[nodiscard]] absl::Status migrate(const MigrateOptions& options,
                                   const std::function<void(std::string_view)>& say);

}  // namespace idempotency::postgres
