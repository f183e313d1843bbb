#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "source/protocol/settings.h"
#include "source/runtime/maintenance_observer.h"
#include "source/runtime/timed_task.h"
#include "source/store/maintenance_store.h"

namespace idempotency::runtime {

struct MaintainerOptions {
  protocol::MaintenanceSettings settings;
  // Identifies this process among all that use the store.
  std::string owner;
  // Records per step: few enough not to disturb requests.
  uint32_t step = 500;
  // Timeout of a store call.
  std::chrono::milliseconds timeout{5000};
};

// Runs the sweeper and the reaper as long as this process leads, by a lease in the store that it
// extends every few seconds. If a step reports more work, the next one follows: for the sweeper
// immediately, for the reaper after a pause, because nothing waits for it. All intervals vary by a
// tenth, so that many processes do not act in step.
//
// Running a job in two processes is safe; the leader only saves work.
//
// The store's callbacks keep this object alive. It calls the store in onTime() and stop() only.
class Maintainer : public TimedTask, public std::enable_shared_from_this<Maintainer> {
public:
  // `random` gives numbers in [0, 1).
  static std::shared_ptr<Maintainer> create(store::MaintenanceStore& store,
                                            MaintainerOptions options,
                                            std::shared_ptr<MaintenanceObserver> observer,
                                            std::function<double()> random);

  // Lets another process lead immediately. Call it before the store is destroyed, when no timer
  // calls this object any more. A pending call may end later; if it makes this process the leader,
  // the lease expires.
  void stop();

  // TimedTask
  store::Deadline onTime(store::MonotonicTime now) override;

private:
  // A result of the store that has not been processed yet.
  struct Outcome {
    MaintenanceJob job = MaintenanceJob::Lead;
    bool ok = false;
    bool more = false;
    bool ours = false;
  };

  Maintainer(store::MaintenanceStore& store, MaintainerOptions options,
             std::shared_ptr<MaintenanceObserver> observer, std::function<double()> random);

  // With the lock held.
  store::Deadline later(store::MonotonicTime now, std::chrono::milliseconds interval);
  store::Deadline afterFailure(store::MonotonicTime now, std::chrono::milliseconds interval);
  void apply(const Outcome& outcome, store::MonotonicTime now);
  std::optional<MaintenanceJob> dueJob(store::MonotonicTime now) const;
  store::Deadline nextTime(store::MonotonicTime now) const;
  bool leads(store::MonotonicTime now) const { return now < leads_until_; }

  void start(MaintenanceJob job, store::MonotonicTime now, store::Deadline leads_until);
  void onLeadership(const store::Leadership& leadership);
  void onResult(MaintenanceJob job, const store::MaintenanceResult& result);
  void finish(const Outcome& outcome);

  store::MaintenanceStore& store_;
  const MaintainerOptions options_;
  const std::shared_ptr<MaintenanceObserver> observer_;
  const std::function<double()> random_;
  const std::chrono::milliseconds lead_interval_;

  mutable std::mutex mutex_;  // Guards what follows.
  bool started_ = false;
  bool busy_ = false;  // A call is in progress: one at a time.
  std::optional<Outcome> outcome_;
  store::Deadline began_{};  // Of the current or the last call.
  store::Deadline leads_until_{};
  store::Deadline lead_due_{};
  store::Deadline sweep_due_{};
  store::Deadline reap_due_{};
  bool leader_ = false;  // According to the last result of the store.
  bool stopped_ = false;
};

}  // namespace idempotency::runtime
