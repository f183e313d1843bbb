#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

#include "source/store/postgres/wire/pq.h"

namespace idempotency::postgres {

struct SessionRules {
  std::chrono::milliseconds timeout{1000};  // The server cancels statements that take longer.
  bool allow_asynchronous_commit = false;   // A synchronous_commit below `on` stays as it is.
};

// Sends the first statements of a new session: pins settings, checks the server and the schema.
// `predecessor` as below. False if libpq refused.
[[nodiscard]] bool sendSettings(PGconn* connection, const SessionRules& rules, int predecessor);
inline constexpr size_t SettingsResults = 2;

// Evaluates their results, the first ones. An error says why this server must not be used; `role`
// is the one that the session's role should have.
[[nodiscard]] absl::Status checkSettings(std::span<const PqResult> results, std::string_view role);

// Sends the setup of a new session, under one Sync: the settings, and prepares all
// statements. `predecessor` is the server process of a lost session, or 0.
// False if libpq refused.
[[nodiscard]] bool sendSessionSetup(PGconn* connection, const SessionRules& rules, int predecessor);

// Repeats the check with one statement while the session is in use, because a reload of the
// server's configuration affects open sessions. Also adopts a raised synchronous_commit.
[[nodiscard]] bool sendDurabilityCheck(PGconn* connection, const SessionRules& rules);

// Evaluates its result, or that of the setup's first statement. An error means that commits may be
// lost.
[[nodiscard]] absl::Status checkDurability(const PGresult* result);

// How many results follow the setup, without the Sync.
[[nodiscard]] size_t sessionSetupResults();

// Evaluates them. An error says why this server must not be used.
[[nodiscard]] absl::Status checkSession(std::span<const PqResult> results);

}  // namespace idempotency::postgres
