#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "source/store/postgres/wire/pq.h"

namespace idempotency::postgres {

struct ConnectOptions {
  std::string conninfo;  // As libpq reads it. A bare word is the name of a database.
  std::optional<std::string> password{};
  // For each host, unless conninfo or PGCONNECT_TIMEOUT says otherwise.
  std::chrono::seconds timeout{10};
  // Parameters by libpq's names, for those that conninfo does not set.
  std::vector<std::pair<const char*, std::string>> defaults{};
};

// Connects, and waits until that is done. InvalidArgument: conninfo is malformed.
[[nodiscard]] absl::StatusOr<PqConnection> connectNow(const ConnectOptions& options);

}  // namespace idempotency::postgres
