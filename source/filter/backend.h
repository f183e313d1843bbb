#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <absl/status/statusor.h>

#include "source/filter/held_claim.h"
#include "source/filter/key_rate.h"
#include "source/filter/log_limiter.h"
#include "source/filter/open_store.h"
#include "source/filter/redirects.h"
#include "source/filter/replay_cache.h"
#include "source/filter/settler.h"
#include "source/filter/stat_sink.h"
#include "source/filter/tenant_labels.h"
#include "source/filter/waiters.h"
#include "source/maintenance/heartbeat.h"
#include "source/maintenance/maintainer.h"
#include "source/maintenance/timer_thread.h"
#include "source/protocol/settings.h"

namespace idempotency {

struct BackendSettings {
  StoreSettings store;
  LimitSettings limits;
  ReplayCacheSettings replay_cache;
  MaintenanceSettings maintenance;
  // When somebody asks the upstream about an unknown outcome. None: nobody does.
  std::optional<std::chrono::milliseconds> reconcile_after;
  bool operator==(const BackendSettings&) const = default;
};

// All that the requests of a process share: the store and what works beside it, with their threads.
// One for all filter configs with equal settings, so that it outlives reloads.
//
// Any thread may use it while a config holds it. It dies with its last config: on the main thread
// at once, which waits a moment for writes that are under way; on a worker (that is where Envoy
// destroys configs that came by ECDS) on a thread of its own, since a worker must not wait.
class Backend {
public:
  // The one that has these settings, or a new one. Main thread.
  static absl::StatusOr<std::shared_ptr<Backend>> obtain(const BackendSettings& settings);

  Store& store() { return *opened_.store; }
  ReplayCache& cache() { return cache_; }
  Waiters& waiters() { return *waiters_; }
  Redirects& redirects() { return *redirects_; }
  KeyRate& keyRate() { return key_rate_; }
  TenantLabels& tenantLabels() { return tenant_labels_; }
  StatSink& stats() { return stats_; }
  const BackendSettings& settings() const { return settings_; }

  enum class Entry : uint8_t { Bounded, Unbounded };
  // A request wants to be held. False: too many are. One that holds a claim already always may.
  bool enter(Entry entry = Entry::Bounded);
  void leave() { in_flight_.fetch_sub(1, std::memory_order_relaxed); }

  // Keeps the lease of a claim alive until settle().
  void keepAlive(const HeldClaim& claim);
  // Writes how a claim ended, whatever happens to its stream. `completed` is what a completion lets
  // be replayed; null: nothing. `report` as in SettleRequest; empty: nobody waits.
  void settle(const HeldClaim& claim, Ending ending,
              std::shared_ptr<const CompletedRecord> completed,
              std::function<void(Settled, const std::string&)> report);

  // The store could not answer: counted, and logged now and then.
  void onStoreError(std::string_view what, std::string_view reason);
  // A request runs unprotected, since its route says so: logged now and then.
  void onFailOpen();

private:
  Backend(BackendSettings settings, OpenedStore opened);
  ~Backend();
  // What the last owner does.
  static void retire(Backend* backend, std::thread::id main_thread);

  // Gauges, and counters that only the store knows.
  void showStatus();
  void onReport(Settled settled, const std::string& reason);
  void onRecordPolled(const Identity& identity, const Record& record, Deadline asked);

  const BackendSettings settings_;
  std::atomic<uint32_t> in_flight_{0};
  StatSink stats_;
  ReplayCache cache_;
  KeyRate key_rate_;
  TenantLabels tenant_labels_;
  LogLimiter store_errors_;
  LogLimiter fail_opens_;
  StoreStatus shown_;  // The timer's thread only.

  // The destructor takes these apart in an order of its own.
  OpenedStore opened_;
  std::shared_ptr<Settler> settler_;
  std::shared_ptr<Waiters> waiters_;
  std::shared_ptr<Redirects> redirects_;
  std::shared_ptr<Heartbeat> heartbeat_;
  std::shared_ptr<Maintainer> maintainer_;  // Null: switched off.
  std::unique_ptr<TimerThread> timer_;
};

// A completed record as it is kept for replays; null if its response cannot be replayed. `asked` is
// when the store was asked for it.
std::shared_ptr<const CompletedRecord> completedRecord(const Record& record, Deadline asked,
                                                       std::string key_hash);

}  // namespace idempotency
