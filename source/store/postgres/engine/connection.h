#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "source/store/postgres/engine/backoff.h"
#include "source/store/postgres/engine/batch.h"
#include "source/store/postgres/engine/batch_end.h"
#include "source/store/postgres/engine/session.h"
#include "source/store/postgres/wire/conninfo.h"
#include "source/store/postgres/wire/exchange.h"
#include "source/store/postgres/wire/parameters.h"
#include "source/store/postgres/wire/poller.h"
#include "source/store/postgres/wire/pq.h"
#include "source/store/postgres/wire/resolver.h"

namespace idempotency::postgres {

class Connection;

// What a connection reports to its owner, on the store's thread.
class ConnectionOwner {
public:
  virtual ~ConnectionOwner() = default;
  // It needs addresses to connect; onResolved() must follow.
  virtual void onWantsAddresses(Connection& connection) = 0;
  // A session is open: batches may be sent.
  virtual void onUp(Connection& connection) = 0;
  // Connecting failed, or a session ended.
  virtual void onDown(Connection& connection, const std::string& reason) = 0;
  virtual void onBatchEnd(Connection& connection, Batch batch, BatchEnd end) = 0;
};

struct ConnectionSettings {
  Conninfo conninfo;
  SessionRules session;
  std::chrono::milliseconds connect_timeout{3000};  // For each host; also for the lookup.
  std::chrono::milliseconds timeout{1000};          // For a batch, at least.
};

// One connection during the lifetime of the store: connects, opens a session, sends batches,
// detects a dead peer, and reconnects. Never blocks.
class Connection {
public:
  enum class State : uint8_t { Down, Resolving, Connecting, SettingUp, Ready, Busy };

  Connection(uint64_t tag, ConnectionOwner& owner, Poller& poller,
             const ConnectionSettings& settings, Backoff backoff);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  uint64_t tag() const { return tag_; }
  State state() const { return state_; }
  bool isUp() const { return state_ == State::Ready || state_ == State::Busy; }
  // The current batch.
  Batch& batch() { return batch_; }

  void onResolved(const Resolution& resolution, store::MonotonicTime now);
  // Only in state Ready. The batch is not empty. A failure is reported later, by onTimer() or
  // onEvents(): no callback runs inside this call.
  void send(Batch batch, store::MonotonicTime now);
  void onEvents(store::MonotonicTime now);
  // When to call onTimer().
  store::Deadline timer() const { return timer_; }
  void onTimer(store::MonotonicTime now);
  // Closes it permanently; a current batch is lost.
  void close(const std::string& reason);

private:
  void connect(store::MonotonicTime now);
  void tryNextHost(store::MonotonicTime now, const std::string& failure);
  bool startHost(const Host& host);
  // All hosts of a round are named when the last one has failed.
  void noteFailure(const Host& host, const std::string& failure);
  void pollConnect(store::MonotonicTime now);
  void setUp(store::MonotonicTime now);
  void onSetUpInput(store::MonotonicTime now);
  void onBatchInput(store::MonotonicTime now);
  // How many internal statements precede those of the batch.
  size_t preludeLength() const { return (renewed_plans_ ? 1 : 0) + (checks_ ? 1 : 0); }
  absl::Status judgeServer(store::MonotonicTime now);
  void endBatch(BatchEnd end);
  // The current step failed; tries again after a pause.
  void fail(store::MonotonicTime now, const std::string& reason);
  void drop();
  void watch(uint32_t events);
  void unwatch();
  bool flush();
  bool sendStatements();
  static void onNotice(void* connection, const PGresult* notice);

  const uint64_t tag_;
  ConnectionOwner& owner_;
  Poller& poller_;
  const ConnectionSettings& settings_;
  Backoff backoff_;

  State state_ = State::Down;
  store::Deadline timer_{};  // At once.
  PqConnection pq_;
  int watched_ = -1;
  uint32_t watched_events_ = 0;

  std::vector<Host> hosts_;
  size_t host_ = 0;  // The one in use, or that worked last: the next round starts with it.
  size_t hosts_tried_ = 0;
  std::string password_;
  std::string failures_;  // Of the hosts of this round.

  int backend_ = 0;      // The server's process, once the session is open.
  int predecessor_ = 0;  // That of a session that was lost in the middle of a batch.

  std::optional<Exchange> exchange_;
  Batch batch_;
  std::string send_failure_;  // Why it could not be sent; empty if it was.
  Parameters parameters_;
  bool replication_in_doubt_ = false;
  bool renewed_plans_ = false;  // The batch began with that.
  store::Deadline plans_until_{};
  bool checks_ = false;  // It also checks whether the server is still durable.
  store::Deadline checked_until_{};
};

}  // namespace idempotency::postgres
