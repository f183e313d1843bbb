#pragma once

#include <chrono>
#include <span>
#include <string>

#include "absl/status/status.h"

#include "source/store/postgres/pq.h"

namespace idempotency::postgres {

struct SessionRules {
  std::chrono::milliseconds timeout{1000};  // The server ends what takes longer.
  bool allow_asynchronous_commit = false;
};

// Sends what makes a fresh connection into a session of ours, under one Sync: pins settings, asks
// about server and schema, prepares every statement. `predecessor`: the server's process that a
// lost session left behind, or 0. False: libpq refused.
[[nodiscard]] bool sendSessionSetup(PGconn* connection, const SessionRules& rules, int predecessor);

// How many results follow, without the Sync.
[[nodiscard]] size_t sessionSetupResults();

// Judges them. An error says in words why this server must not be used.
[[nodiscard]] absl::Status checkSession(std::span<const PqResult> results,
                                        const SessionRules& rules);

}  // namespace idempotency::postgres
