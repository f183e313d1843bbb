#include "source/runtime/maintainer.h"

#include <algorithm>
#include <utility>

namespace idempotency::runtime {
namespace {

using std::chrono::milliseconds;

// The leader's lease is three of its renewals long: two may fail, and a dead leader is followed
// within half a minute.
constexpr int RenewalsPerLease = 3;
constexpr milliseconds LongestRenewal{10'000};
constexpr milliseconds ShortestRenewal{300};

// The first jobs of a process come soon after its start, spread over this time.
constexpr milliseconds StartSpread{5000};

// What failed is tried again after this at the latest.
constexpr milliseconds RetryPause{5000};

// The reaper rests so many times as long as its last step took: with any backlog, on any machine,
// requests have the database for the larger part of the time. Not more often, or it would fall
// behind: to delete a record costs a third of what it cost to make it.
constexpr int PausesPerStep = 2;

milliseconds leadInterval(const protocol::MaintenanceSettings& settings) {
  return std::clamp(std::min(settings.sweep_interval, settings.reap_interval) / 2, ShortestRenewal,
                    LongestRenewal);
}

milliseconds part(milliseconds time, double fraction) {
  return std::chrono::duration_cast<milliseconds>(time * fraction);
}

}  // namespace

std::shared_ptr<Maintainer> Maintainer::create(store::MaintenanceStore& store,
                                               MaintainerOptions options,
                                               std::shared_ptr<MaintenanceObserver> observer,
                                               std::function<double()> random) {
  return std::shared_ptr<Maintainer>(
      new Maintainer(store, std::move(options), std::move(observer), std::move(random)));
}

Maintainer::Maintainer(store::MaintenanceStore& store, MaintainerOptions options,
                       std::shared_ptr<MaintenanceObserver> observer,
                       std::function<double()> random)
    : store_(store),
      options_(std::move(options)),
      observer_(std::move(observer)),
      random_(std::move(random)),
      lead_interval_(leadInterval(options_.settings)) {}

void Maintainer::stop() {
  bool leader = false;
  {
    const std::lock_guard lock(mutex_);
    leader = std::exchange(leader_, false);
    stopped_ = true;
  }
  if (leader) {
    store_.lead(options_.owner, milliseconds(0),
                std::chrono::steady_clock::now() + options_.timeout,
                [](const store::Leadership&) {});
  }
}

store::Deadline Maintainer::later(store::MonotonicTime now, milliseconds interval) {
  return now + part(interval, 0.9 + 0.2 * random_());
}

store::Deadline Maintainer::afterFailure(store::MonotonicTime now, milliseconds interval) {
  return later(now, std::min(interval, RetryPause));
}

void Maintainer::apply(const Outcome& outcome, store::MonotonicTime now) {
  switch (outcome.job) {
    case MaintenanceJob::Lead:
      // From when it was asked for: the store's lease cannot have begun earlier. Without an answer
      // the lease that we have still holds.
      if (outcome.ok) {
        leads_until_ =
            outcome.ours ? began_ + RenewalsPerLease * lead_interval_ : store::Deadline();
      }
      lead_due_ = later(now, lead_interval_);
      break;
    case MaintenanceJob::Sweep:
      sweep_due_ = outcome.more ? now
                   : outcome.ok ? later(now, options_.settings.sweep_interval)
                                : afterFailure(now, options_.settings.sweep_interval);
      break;
    case MaintenanceJob::Reap:
      reap_due_ = outcome.more ? now + PausesPerStep * (now - began_)
                  : outcome.ok ? later(now, options_.settings.reap_interval)
                               : afterFailure(now, options_.settings.reap_interval);
      break;
  }
}

std::optional<MaintenanceJob> Maintainer::dueJob(store::MonotonicTime now) const {
  if (lead_due_ <= now) {
    return MaintenanceJob::Lead;
  }
  if (!leads(now)) {
    return std::nullopt;
  }
  if (sweep_due_ <= now && sweep_due_ <= reap_due_) {
    return MaintenanceJob::Sweep;
  }
  if (reap_due_ <= now) {
    return MaintenanceJob::Reap;
  }
  return std::nullopt;
}

store::Deadline Maintainer::nextTime(store::MonotonicTime now) const {
  return leads(now) ? std::min({lead_due_, sweep_due_, reap_due_}) : lead_due_;
}

store::Deadline Maintainer::onTime(store::MonotonicTime now) {
  std::optional<MaintenanceJob> job;
  store::Deadline leads_until;
  {
    const std::lock_guard lock(mutex_);
    if (!options_.settings.enabled) {
      return store::Deadline::max();
    }
    if (!std::exchange(started_, true)) {
      lead_due_ = now;
      sweep_due_ = now + part(std::min(StartSpread, options_.settings.sweep_interval), random_());
      reap_due_ = now + part(std::min(StartSpread, options_.settings.reap_interval), random_());
    }
    if (const std::optional<Outcome> outcome = std::exchange(outcome_, std::nullopt)) {
      busy_ = false;
      apply(*outcome, now);
    }
    if (busy_) {
      return store::Deadline::max();  // The answer wakes us.
    }
    job = dueJob(now);
    if (!job.has_value()) {
      return nextTime(now);
    }
    busy_ = true;
    began_ = now;
    leads_until = leads_until_;
  }
  start(*job, now, leads_until);
  return store::Deadline::max();
}

void Maintainer::start(MaintenanceJob job, store::MonotonicTime now, store::Deadline leads_until) {
  auto self = shared_from_this();
  const store::Deadline deadline = now + options_.timeout;
  switch (job) {
    case MaintenanceJob::Lead:
      store_.lead(options_.owner, RenewalsPerLease * lead_interval_, deadline,
                  [self](const store::Leadership& leadership) { self->onLeadership(leadership); });
      return;
    case MaintenanceJob::Sweep:
      // Schedules nothing: the reconciler takes what has no time at once.
      store_.sweep(options_.step, std::nullopt, std::min(deadline, leads_until),
                   [self](const store::MaintenanceResult& result) {
                     self->onResult(MaintenanceJob::Sweep, result);
                   });
      return;
    case MaintenanceJob::Reap:
      store_.reap(options_.step, options_.settings.soft_expire, std::min(deadline, leads_until),
                  [self](const store::MaintenanceResult& result) {
                    self->onResult(MaintenanceJob::Reap, result);
                  });
      return;
  }
}

void Maintainer::onLeadership(const store::Leadership& leadership) {
  const bool ok = leadership.reason.empty();
  bool changed = false;
  if (ok) {
    const std::lock_guard lock(mutex_);
    changed = !stopped_ && std::exchange(leader_, leadership.ours) != leadership.ours;
  } else {
    observer_->onJobFailed(MaintenanceJob::Lead, leadership.reason);
  }
  if (changed) {
    observer_->onLeadership(leadership.ours);
  }
  finish({.job = MaintenanceJob::Lead, .ok = ok, .ours = leadership.ours});
}

void Maintainer::onResult(MaintenanceJob job, const store::MaintenanceResult& result) {
  if (!result.ok) {
    observer_->onJobFailed(job, result.reason);
  } else if (job == MaintenanceJob::Sweep) {
    observer_->onSwept(result);
  } else {
    observer_->onReaped(result);
  }
  finish({.job = job, .ok = result.ok, .more = result.ok && result.more});
}

void Maintainer::finish(const Outcome& outcome) {
  {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
  }
  wake();
}

}  // namespace idempotency::runtime
