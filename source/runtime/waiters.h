#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "source/runtime/timed_task.h"
#include "source/store/store.h"

namespace idempotency::runtime {

// Requests that are held because another one with their key runs (in_flight WAIT). A waiter is
// woken once: when the record changes in this process, when polling sees that it changed elsewhere,
// or when its time is up. It then asks the store like a new request, so waking one too often does
// no harm.
//
// Polling is for holders in other processes. An attempt that this process holds ends with a call of
// wakeAll(). It is also polled, but rarely, because others can settle its record, too (a sweeper,
// the upstream's own transaction). One lookup serves all waiters of an attempt, and all lookups
// that are due go to the store in one call: at most a hundred calls and about ten thousand keys per
// second, however many requests wait.
//
// Any thread. One lock, never held while a callback or the store runs, nor for more than
// LockPortion waiters at a time. The store's callbacks use this object: it must live until the last
// of them has run.
class Waiters : public TimedTask {
  struct Waiter;

public:
  using Ticket = std::shared_ptr<Waiter>;
  // Whether a request of this process runs with this attempt. On the timer's or the store's thread,
  // without the lock. It must already be false when wakeAll() is called for the attempt's end: then
  // waiters that saw true are woken, and later ones poll.
  using IsHeldHere = std::function<bool(protocol::Attempt)>;
  // What polling found, before the waiters are woken.
  using OnFound =
      std::function<void(const protocol::Identity&, const store::Record&, store::Deadline asked)>;

  Waiters(store::Store& store, IsHeldHere is_held_here, OnFound on_found)
      : store_(store), is_held_here_(std::move(is_held_here)), on_found_(std::move(on_found)) {}

  // `seen` is the running attempt. `wake` runs at most once, on the store's, the timer's or another
  // worker's thread, without the lock.
  Ticket add(const protocol::Identity& identity, protocol::Attempt seen, store::MonotonicTime now,
             store::Deadline until, std::function<void()> wake);
  // The request has ended. A `wake` that has already been started may still run.
  void remove(const Ticket& ticket);
  // The record of this identity changed in this process.
  void wakeAll(const protocol::Identity& identity);

  size_t size() const { return size_.load(); }

  // TimedTask
  store::Deadline onTime(store::MonotonicTime now) override;

private:
  struct Cohort;
  using CohortPtr = std::shared_ptr<Cohort>;
  using Deadlines = std::multimap<store::Deadline, Ticket>;
  using Polls = std::multimap<store::Deadline, CohortPtr>;

  // All waiters of one attempt.
  struct Cohort {
    Cohort(const protocol::Identity& who, protocol::Attempt attempt)
        : identity(who), seen(attempt) {}
    const protocol::Identity identity;
    const protocol::Attempt seen;
    // Whether this process held it at the last check. Used by the thread that took it from polls_,
    // and then by the one that handles its lookup.
    bool slow = false;
    // Guarded by mutex_:
    std::list<Waiter*> waiters;
    bool known = true;  // In cohorts_: others may join.
    std::chrono::milliseconds interval{0};
    std::optional<Polls::iterator> poll;  // None: not known, or about to be polled or postponed.
  };
  struct Waiter {
    CohortPtr cohort;
    std::function<void()> wake;
    // Guarded by mutex_:
    bool waits = true;
    std::list<Waiter*>::iterator place;
    Deadlines::iterator deadline;
  };

  // --- With the lock held.
  CohortPtr cohortFor(const protocol::Identity& identity, protocol::Attempt seen,
                      store::MonotonicTime now);
  void schedule(const CohortPtr& cohort, store::MonotonicTime now,
                std::chrono::milliseconds interval);
  // From now on no waiter joins it, and it is not polled.
  void forget(Cohort& cohort);
  Ticket takeOut(Waiter& waiter);
  std::vector<Ticket> takeLate(store::MonotonicTime now);
  bool takeDue(store::MonotonicTime now, std::vector<CohortPtr>& due);

  // --- Without it.
  void wakeLate(store::MonotonicTime now);
  void wakeCohort(Cohort& cohort);
  // At most as many as may be polled now.
  std::vector<CohortPtr> dueCohorts(store::MonotonicTime now);
  void postpone(std::span<const CohortPtr> cohorts, store::MonotonicTime now);
  void poll(std::vector<CohortPtr> cohorts, store::MonotonicTime now);
  void onFound(const CohortPtr& cohort, store::Deadline asked, const store::LookUpResult& result);

  store::Store& store_;
  const IsHeldHere is_held_here_;
  const OnFound on_found_;
  std::atomic<size_t> size_{0};  // Of deadlines_; written under mutex_.
  std::mutex mutex_;             // Guards what follows.
  std::map<protocol::Identity, std::vector<CohortPtr>> cohorts_;  // Mostly one for each identity.
  Deadlines deadlines_;                                           // Owns the waiters.
  Polls polls_;
  size_t known_ = 0;    // Cohorts in cohorts_.
  size_t polling_ = 0;  // Lookups in progress.
};

}  // namespace idempotency::runtime
