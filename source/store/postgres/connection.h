#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "source/store/postgres/backoff.h"
#include "source/store/postgres/batch.h"
#include "source/store/postgres/batch_end.h"
#include "source/store/postgres/conninfo.h"
#include "source/store/postgres/exchange.h"
#include "source/store/postgres/parameters.h"
#include "source/store/postgres/poller.h"
#include "source/store/postgres/pq.h"
#include "source/store/postgres/resolver.h"
#include "source/store/postgres/session.h"

namespace idempotency::postgres {

class Connection;

// What a connection tells its owner, on the store's thread.
class ConnectionOwner {
public:
  virtual ~ConnectionOwner() = default;
  // It wants to connect and needs addresses; onResolved() must follow.
  virtual void onWantsAddresses(Connection& connection) = 0;
  // A session stands: batches may be sent.
  virtual void onUp(Connection& connection) = 0;
  // A try to connect failed, or a session ended.
  virtual void onDown(Connection& connection, const std::string& reason) = 0;
  virtual void onBatchEnd(Connection& connection, Batch batch, BatchEnd end) = 0;
};

struct ConnectionSettings {
  Conninfo conninfo;
  SessionRules session;
  std::chrono::milliseconds connect_timeout{3000};  // For each host; also for the look-up.
  std::chrono::milliseconds timeout{1000};          // For a batch, at least.
};

// One connection for as long as the store lives: connects, makes a session, sends batches, notices
// that the peer is dead, and begins anew. Never blocks.
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
  // The batch that is under way.
  Batch& batch() { return batch_; }

  void onResolved(const Resolution& resolution, Deadline now);
  // Only in state Ready. The batch is not empty. A failure shows later, by onTimer() or onEvents():
  // nobody is called back from here.
  void send(Batch batch, Deadline now);
  void onEvents(Deadline now);
  // When onTimer() wants to be called.
  Deadline timer() const { return timer_; }
  void onTimer(Deadline now);
  // Ends it for good; a batch under way is lost.
  void close(const std::string& reason);

private:
  void connect(Deadline now);
  void tryNextHost(Deadline now, const std::string& failure);
  bool startHost(const Host& host);
  void pollConnect(Deadline now);
  void setUp(Deadline now);
  void onSetUpInput(Deadline now);
  void onBatchInput(Deadline now);
  void endBatch(BatchEnd end);
  // Whatever it was doing has failed; tries again after a pause.
  void fail(Deadline now, const std::string& reason);
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
  Deadline timer_{};  // At once.
  PqConnection pq_;
  int watched_ = -1;
  uint32_t watched_events_ = 0;

  std::vector<Host> hosts_;
  size_t host_ = 0;  // The one that is tried, or that worked last: the next round begins there.
  size_t hosts_tried_ = 0;
  std::string password_;
  std::string last_failure_;

  int backend_ = 0;      // The server's process, once the session stands.
  int predecessor_ = 0;  // That of a session that was lost in the middle of a batch.

  std::optional<Exchange> exchange_;
  Batch batch_;
  std::string send_failure_;  // Why it could not be sent; empty: it was.
  Parameters parameters_;
  bool replication_in_doubt_ = false;
  bool renewed_plans_ = false;  // The batch began with that.
  Deadline plans_until_{};
};

}  // namespace idempotency::postgres
