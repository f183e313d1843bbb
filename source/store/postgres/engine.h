#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"

#include "source/store/postgres/breaker.h"
#include "source/store/postgres/connection.h"
#include "source/store/postgres/inbox.h"
#include "source/store/postgres/poller.h"
#include "source/store/postgres/queue.h"
#include "source/store/postgres/settle_list.h"

namespace idempotency::postgres {

struct EngineSettings {
  ConnectionSettings connection;
  uint32_t connections = 4;
  std::string password_file;
  BatchLimits batch;
  BreakerSettings breaker;
};

// What goes on inside, for stats and health pages.
struct EngineStats {
  uint32_t connections_up = 0;
  Breaker::State breaker = Breaker::State::Closed;
  std::string last_error;  // Of a connection or a batch; empty: none so far.
  uint64_t batches = 0;
  uint64_t operations = 0;  // Sent in batches.
  uint64_t batches_failed = 0;
  uint64_t connects = 0;
  uint64_t connections_lost = 0;
  uint64_t unsettled = 0;  // Claims that the store has to release, and cannot yet.
};

// The store's thread: takes operations out of the inbox, gathers them while connections are busy,
// sends them as batches, keeps deadlines.
//
// While it sleeps a caller may do its work for a moment, under its lock: a lone operation is then
// on its way before that thread would have woken up. Callbacks run on the store's thread alone.
class Engine : private ConnectionOwner {
public:
  Engine(EngineSettings settings, std::shared_ptr<Inbox> inbox);
  ~Engine() override;

  // False: the kernel refused what run() needs.
  bool ok() const { return hears_; }
  // Runs until stop(); then everything has been answered. Throws nothing.
  void run();
  // Any thread.
  void stop();
  // Any thread, after Inbox::add() said that the store's thread is to be woken: sends what came, if
  // that is one operation and nothing stands in its way. False: wake it. Never waits.
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
  void settle();
  // Idle ones can send at once.
  size_t idleConnections() const;
  size_t underWay() const;
  // How many operations are worth a batch while others are under way; whether what waits is, and
  // how many more would be.
  size_t gatheringGoal() const;
  bool isWorthSending() const;
  size_t operationsWorthWaking() const;
  void dispatch();
  Deadline nextTimer() const;
  bool mayEnd();
  void end();
  void publishStats();
  bool anyUp() const;

  const EngineSettings settings_;
  const std::shared_ptr<Inbox> inbox_;
  // Held by whoever works: by the store's thread while it is awake, with its callbacks. Others only
  // try. It guards all below, but for what says otherwise.
  std::mutex mutex_;
  Poller poller_;
  Queue queue_;
  Breaker breaker_;
  const bool hears_;  // The inbox can wake this thread.
  SettleList settle_list_;
  std::vector<std::unique_ptr<Connection>> connections_;
  absl::flat_hash_set<std::string> busy_tenants_;
  std::vector<Message> messages_;
  Deadline now_{};
  Deadline next_flight_deadline_ = Deadline::max();  // Never later than the first one under way.
  Deadline gathers_until_ = Deadline::max();         // What waits goes then, however little it is.
  Deadline sleeps_until_{};  // Nobody but the store's thread keeps deadlines.
  bool resolving_ = false;
  bool broken_ = false;  // A caller's work failed half-way: see run().
  std::atomic<bool> stopping_{false};
  Deadline stop_by_ = Deadline::max();  // Set once it is noticed.

  mutable std::mutex stats_mutex_;
  EngineStats stats_;
  EngineStats published_;  // Guarded by stats_mutex_.
};

}  // namespace idempotency::postgres
