#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "source/store/postgres/wire/exchange.h"
#include "source/store/postgres/wire/parameters.h"
#include "source/store/postgres/wire/pq.h"

namespace idempotency::postgres {

// Statements that are sent together, under one Sync. What the parameters show must outlive it.
class Script {
public:
  Parameters& add(std::string sql) { return statements_.emplace_back(std::move(sql)).parameters; }

  struct Statement {
    explicit Statement(std::string text) : sql(std::move(text)) {}
    std::string sql;
    Parameters parameters{};
  };
  const std::deque<Statement>& statements() const { return statements_; }

private:
  std::deque<Statement> statements_;  // A deque: parameters must not be copied.
};

struct BlockingSessionOptions {
  std::string conninfo;
  std::optional<std::string> password{};
  std::chrono::milliseconds timeout{10'000};  // Of each statement, and of connecting.
};

// One session with the server for callers that wait: with the same settings as those of the
// engine, except that the planner is free, because operators ask for more than single rows. One
// thread at a time.
class BlockingSession {
public:
  explicit BlockingSession(BlockingSessionOptions options) : options_(std::move(options)) {}
  BlockingSession(const BlockingSession&) = delete;
  BlockingSession& operator=(const BlockingSession&) = delete;

  enum class Repeat : uint8_t {
    Never,   // Fails unless the session is the one that the caller has begun something on.
    Unsent,  // On a new session, if the old one has ended before anything was sent.
    Always,  // Also if it was lost afterwards: for what may run twice.
  };
  // One result for each statement, in the binary format. Errors:
  //   Unavailable        no connection, or lost: see isInDoubt()
  //   FailedPrecondition this server must not be used
  //   Aborted            another transaction has locked a row
  //   DeadlineExceeded   took too long
  //   PermissionDenied   the role lacks a privilege
  absl::StatusOr<std::vector<PqResult>> run(const Script& script, Repeat repeat);
  // Whether the last run() failed after it had sent its statements, so that the server may have
  // carried them out.
  bool isInDoubt() const { return in_doubt_; }

  // For a script that begins a transaction and changes nothing yet: runs it again if the session
  // was lost, and fails if this server could lose a commit.
  absl::StatusOr<std::vector<PqResult>> begin(const Script& script);
  void rollBack();

  // Host and port; empty while there is no session.
  std::string server() const;

private:
  absl::Status open();
  absl::Status setUp();
  // The server ends idle sessions, and restarts.
  bool hasEnded();
  absl::StatusOr<std::vector<PqResult>> runOnce(const Script& script, bool check_durability);
  bool send(const Script& script, bool check_durability);
  // Until the Sync. An error ends the session.
  absl::Status receive(Exchange& exchange);
  absl::Status lost(const std::string& reason);

  static void onNotice(void* session, const PGresult* notice);

  const BlockingSessionOptions options_;
  PqConnection pq_;
  bool in_doubt_ = false;
  bool replication_in_doubt_ = false;
  bool announced_end_ = false;  // The server has said that it ends the session.
};

}  // namespace idempotency::postgres
