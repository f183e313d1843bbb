#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "source/filter/backend/shared_asker.h"
#include "source/filter/stats/stat_sink.h"
#include "source/filter/stats/tenant_labels.h"
#include "source/protocol/ending.h"
#include "source/protocol/settings.h"
#include "source/request/claim_keeper.h"
#include "source/request/claimant.h"
#include "source/runtime/admission.h"
#include "source/runtime/alarms.h"
#include "source/runtime/heartbeat.h"
#include "source/runtime/held_claim.h"
#include "source/runtime/key_rate.h"
#include "source/runtime/log_limiter.h"
#include "source/runtime/maintainer.h"
#include "source/runtime/outage_log.h"
#include "source/runtime/reconciler.h"
#include "source/runtime/redirects.h"
#include "source/runtime/replay_cache.h"
#include "source/runtime/run_dialer.h"
#include "source/runtime/settler.h"
#include "source/runtime/timer_thread.h"
#include "source/runtime/waiters.h"
#include "source/store/open/open_store.h"

namespace idempotency::filter {

struct BackendSettings {
  protocol::StoreSettings store;
  protocol::LimitSettings limits;
  protocol::ReplayCacheSettings replay_cache;
  protocol::MaintenanceSettings maintenance;
  std::optional<protocol::PrivateListenerSettings> private_listener;
  std::vector<protocol::ReconcileSettings> reconcile;
  bool operator==(const BackendSettings&) const = default;
};

// Everything that the requests of a process share: the store and its helpers, with their threads.
// There is one for all filter configs with equal settings, so that it outlives reloads.
//
// Any thread may use it while a config holds it. It is destroyed with its last config: on the main
// thread immediately, which waits briefly for pending writes; on a worker (where Envoy destroys
// configs from ECDS) on a separate thread, because a worker must not wait.
//
// Lifetimes. The helpers (settler, waiters, redirects, heartbeat, maintainer) refer to the store,
// and the store's callbacks use the helpers. The destructor ends them in this order:
//   0. The dialer: its connections end, and the claims of runs that still wait are settled. No run
//      refers to this backend any more.
//   1. The timer: no helper starts anything by itself any more.
//   2. The reconciler: its thread ends, when the store has answered the call in progress, for which
//      there is a short time limit. It has a connection of its own, which it closes.
//   3. What is left to say to the store: the maintainer gives up its leadership, and claims that
//      wait for a redirect end as unknown.
//   4. The store: its destructor finishes pending writes and runs every callback. The helpers still
//      live, and no callback calls the store.
//   5. The helpers, whose reference to the store is not used any more.
class Backend : public request::ClaimKeeper {
public:
  // The backend with these settings, or a new one. Main thread.
  static absl::StatusOr<std::shared_ptr<Backend>> obtain(const BackendSettings& settings);

  store::Store& store() { return *opened_.store; }
  runtime::Admission& admission() { return admission_; }
  runtime::Redirects& redirects() { return *redirects_; }
  // Only with private_listener in the settings.
  runtime::RunDialer& dialer() { return *dialer_; }
  runtime::Alarms& alarms() { return *alarms_; }
  TenantLabels& tenantLabels() { return tenant_labels_; }
  StatSink& stats() { return stats_; }
  const BackendSettings& settings() const { return settings_; }

  request::ClaimServices claimServices();

  // Keeps the lease of a claim alive until settle().
  void keepAlive(const runtime::HeldClaim& claim);

  // ClaimKeeper
  void settle(const runtime::HeldClaim& claim, protocol::Ending ending,
              std::shared_ptr<const runtime::CompletedRecord> completed,
              runtime::OnSettled report) override;
  void passOn(runtime::HeldClaim claim) override;
  void letLeaseEnd(protocol::Attempt attempt) override { heartbeat_->remove(attempt); }
  std::optional<std::chrono::milliseconds> reconcileAfter(
      const std::string& operation) const override;

  // The store could not claim a key: counted, and logged at intervals.
  void onClaimFailed(std::string_view reason);
  // A response that the store has cannot be replayed: logged.
  static void onUnreadable(const absl::Status& why);
  // A request runs unprotected, because of its route's policy: logged at intervals.
  void onFailOpen();
  // The private listener has taken a run over, so it has the right filter. Any thread.
  void onRunStarted();
  bool hasStartedRuns() const { return has_started_runs_.load(std::memory_order_relaxed); }
  // It did not take a run over: logged at intervals. `in_doubt`: it may have forwarded it.
  void onRunNotStarted(std::string_view reason, bool in_doubt);
  // A request is refused, because its route's policy conflicts with the filter's: logged at
  // intervals.
  void onConfigInvalid(std::string_view route, std::string_view why);

private:
  Backend(BackendSettings settings, store::OpenedStore opened);
  ~Backend() override;
  // Called by the last owner.
  static void retire(Backend* backend, std::thread::id main_thread);

  // The background jobs; `tasks` gets what the timer runs. In the constructor.
  void startJobs(const std::shared_ptr<runtime::MaintenanceObserver>& observer,
                 std::vector<std::shared_ptr<runtime::TimedTask>>& tasks);
  // Gauges, the store's counters, and the end of an outage. The timer's thread.
  void showStatus();
  // The counters that only the store knows: adds what they have gained since the last time.
  void countStore(const store::StoreStatus& status);
  void onReport(const runtime::SettleReport& report);
  // The store found the record of a claim completed: what can be replayed of it, which is now in the
  // cache.
  std::shared_ptr<const runtime::CompletedRecord> keepFound(const protocol::Identity& identity,
                                                            const store::Record& record,
                                                            store::Deadline asked);
  // The store failed: counts it, and logs the line if there is one.
  void onStoreError(const std::optional<std::string>& line);
  void onRecordPolled(const protocol::Identity& identity, const store::Record& record,
                      store::Deadline asked);

  const BackendSettings settings_;
  runtime::Admission admission_;  // Outlives everything that it counts.
  StatSink stats_;
  runtime::ReplayCache cache_;
  runtime::KeyRate key_rate_;
  TenantLabels tenant_labels_;
  runtime::OutageLog outages_;
  runtime::LogLimiter fail_opens_;
  runtime::LogLimiter invalid_configs_;
  runtime::LogLimiter not_started_;
  std::atomic<bool> has_started_runs_{false};
  store::StoreStatus shown_;  // The timer's thread only.

  // The destructor ends these in its own order: see above.
  store::OpenedStore opened_;
  std::shared_ptr<runtime::Settler> settler_;
  std::shared_ptr<runtime::Waiters> waiters_;
  std::shared_ptr<runtime::Redirects> redirects_;
  std::shared_ptr<runtime::Alarms> alarms_;
  std::shared_ptr<runtime::Heartbeat> heartbeat_;
  std::unique_ptr<runtime::Reconciler> reconciler_;  // Null: no background jobs in this process.
  std::shared_ptr<runtime::Maintainer> maintainer_;  // The same.
  std::unique_ptr<runtime::TimerThread> timer_;
  std::unique_ptr<runtime::RunDialer> dialer_;  // Null: there are no detached runs.
};

}  // namespace idempotency::filter
