#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "source/maintenance/maintenance_observer.h"
#include "source/maintenance/timed_task.h"
#include "source/protocol/settings.h"
#include "source/store/maintenance_store.h"

namespace idempotency {

struct MaintainerOptions {
  MaintenanceSettings settings;
  // Names this process among all that use the store.
  std::string owner;
  // When the upstream is asked about a lease that ran out; none: nobody asks.
  std::optional<std::chrono::milliseconds> reconcile_after;
  // Records per step: few enough that requests do not notice.
  uint32_t step = 500;
  // The longest wait for the store.
  std::chrono::milliseconds timeout{5000};
};

// Runs sweeper and reaper for as long as this process leads, by a lease in the store that it renews
// every few seconds. A step that says there is more is followed by the next: of the sweeper at
// once, of the reaper after a pause, since nobody waits for it. All intervals vary by a tenth, so
// that many processes do not act in step.
//
// Both jobs are safe to run twice at once; the leader only saves work. The store must outlive the
// last callback, that is: be destroyed after this.
class Maintainer : public TimedTask, public std::enable_shared_from_this<Maintainer> {
public:
  // `random` gives numbers in [0, 1).
  static std::shared_ptr<Maintainer> create(MaintenanceStore& store, MaintainerOptions options,
                                            std::shared_ptr<MaintenanceObserver> observer,
                                            std::function<double()> random);

  // Lets another process lead at once. Before the store goes, when no timer calls us any more. A
  // call that is under way may end after it; should it make us the leader, the lease runs out.
  void stop();

  // TimedTask
  Deadline onTime(Deadline now) override;

private:
  // What came back from the store and has not been looked at with a clock.
  struct Outcome {
    MaintenanceJob job = MaintenanceJob::Lead;
    bool ok = false;
    bool more = false;
    bool ours = false;
  };

  Maintainer(MaintenanceStore& store, MaintainerOptions options,
             std::shared_ptr<MaintenanceObserver> observer, std::function<double()> random);

  // With the lock held.
  Deadline later(Deadline now, std::chrono::milliseconds interval);
  Deadline afterFailure(Deadline now, std::chrono::milliseconds interval);
  void apply(const Outcome& outcome, Deadline now);
  std::optional<MaintenanceJob> dueJob(Deadline now) const;
  Deadline nextTime(Deadline now) const;
  bool leads(Deadline now) const { return now < leads_until_; }

  void start(MaintenanceJob job, Deadline now, Deadline leads_until);
  void onLeadership(const Leadership& leadership);
  void onResult(MaintenanceJob job, const MaintenanceResult& result);
  void finish(const Outcome& outcome);

  MaintenanceStore& store_;
  const MaintainerOptions options_;
  const std::shared_ptr<MaintenanceObserver> observer_;
  const std::function<double()> random_;
  const std::chrono::milliseconds lead_interval_;

  mutable std::mutex mutex_;  // Guards what follows.
  bool started_ = false;
  bool busy_ = false;  // A call is under way: one at a time.
  std::optional<Outcome> outcome_;
  Deadline began_{};  // The present call, or the last one.
  Deadline leads_until_{};
  Deadline lead_due_{};
  Deadline sweep_due_{};
  Deadline reap_due_{};
  bool leader_ = false;  // As the store last said.
  bool stopped_ = false;
};

}  // namespace idempotency
