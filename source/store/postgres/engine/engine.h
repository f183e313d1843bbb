#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "source/store/postgres/engine/breaker.h"
#include "source/store/postgres/engine/connection.h"
#include "source/store/postgres/engine/inbox.h"
#include "source/store/postgres/engine/orphans.h"
#include "source/store/postgres/engine/queue.h"
#include "source/store/postgres/operations/tenant_use.h"
#include "source/store/postgres/wire/poller.h"

namespace idempotency::postgres {

struct EngineSettings {
  ConnectionSettings connection;
  uint32_t connections = 4;
  std::string password_file;
  BatchLimits batch;
  BreakerSettings breaker;
};

// Internal state, for statistics and health pages.
struct EngineStats {
  uint32_t connections_up = 0;
  Breaker::State breaker = Breaker::State::Closed;
  std::string last_error;  // Of a connection or a batch; empty: none so far.
  uint64_t batches = 0;    // Sent; those under way have neither been committed nor failed.
  uint64_t batches_committed = 0;
  uint64_t operations = 0;  // Sent in batches.
  uint64_t batches_failed = 0;
  uint64_t connects = 0;
  uint64_t connections_lost = 0;
  uint64_t orphans = 0;  // Those that the store has not withdrawn yet.
};

// The store's thread: takes operations from the inbox, collects them while connections are busy,
// sends them as batches, and enforces deadlines.
//
// While it sleeps, a caller may briefly do its work, under its lock: a single operation is then
// sent before that thread would have woken up. Callbacks run only on the store's thread.
class Engine : private ConnectionOwner {
public:
  // `use` outlives it, and is used only under its lock.
  Engine(EngineSettings settings, std::shared_ptr<Inbox> inbox, TenantUse& use);
  ~Engine() override;

  // False if a system resource for run() is missing.
  bool ok() const { return hears_; }
  // Runs until stop(); then all callbacks have run. Does not throw.
  void run();
  // Any thread.
  void stop();
  // Any thread, after Inbox::add() returned that the store's thread must be woken: sends the new
  // operation, if there is exactly one and nothing prevents it. False: wake the thread. Never
  // waits.
  [[nodiscard]] bool sendLone();
  EngineStats stats() const;

private:
  // ConnectionOwner
  void onWantsAddresses(Connection& connection) override;
  void onUp(Connection& connection) override;
  void onDown(Connection& connection, const std::string& reason) override;
  void onBatchEnd(Connection& connection, Batch batch, BatchEnd end) override;

  void turn(std::unique_lock<std::mutex>& lock);
  bool maySendLone() const;
  std::chrono::milliseconds longestSleep() const;
  void takeMessages();
  void onMessage(OperationPtr operation);
  void onMessage(const Abandon& message);
  void onMessage(const Resolution& resolution);
  void onMessage(const Task& task);
  void keepDeadlines();
  void withdrawOrphans();
  void writeUse();
  // Idle ones can send immediately.
  size_t idleConnections() const;
  size_t underWay() const;
  // How many operations are worth a batch while others are in progress; whether enough are waiting,
  // and how many are missing.
  size_t gatheringGoal() const;
  bool isWorthSending() const;
  size_t operationsWorthWaking() const;
  void dispatch();
  store::Deadline nextTimer() const;
  bool mayEnd();
  void end();
  void publishStats();
  bool anyUp() const;

  const EngineSettings settings_;
  const std::shared_ptr<Inbox> inbox_;
  TenantUse& use_;
  // Held by the working thread: by the store's thread while it is awake, including its callbacks.
  // Others only try to lock it. It guards all members below, unless noted otherwise.
  std::mutex mutex_;
  Poller poller_;
  Queue queue_;
  Breaker breaker_;
  const bool hears_;  // The inbox can wake this thread.
  Orphans orphans_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Message> messages_;
  store::MonotonicTime now_{};
  store::Deadline last_commit_{};  // Of a batch.
  store::Deadline next_flight_deadline_ =
      store::Deadline::max();  // Never later than the first deadline of operations in progress.
  store::Deadline gathers_until_ =
      store::Deadline::max();       // Waiting operations are sent then, however few.
  store::Deadline sleeps_until_{};  // Only the store's thread enforces deadlines.
  bool resolving_ = false;
  bool broken_ = false;  // A caller's work failed midway: see run().
  std::atomic<bool> stopping_{false};
  store::Deadline stop_by_ = store::Deadline::max();  // Set when it is noticed.

  mutable std::mutex stats_mutex_;
  EngineStats stats_;
  EngineStats published_;  // Guarded by stats_mutex_.
};

}  // namespace idempotency::postgres
