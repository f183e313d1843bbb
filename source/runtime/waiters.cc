#include "source/runtime/waiters.h"

#include <algorithm>
#include <utility>

namespace idempotency::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How often an attempt is polled that runs elsewhere: fast at first, then slower.
constexpr milliseconds FirstInterval{10};
constexpr milliseconds LongestInterval{100};
// And one that this process holds.
constexpr milliseconds HeldHereInterval{5000};
// With many of them, the interval grows by this for each.
constexpr microseconds IntervalPerCohort{100};
// Polls happen at multiples of this, so that those which are due at about the same time go
// together.
using Ticks = std::chrono::duration<int64_t, std::centi>;
// A lookup that takes longer is repeated.
constexpr milliseconds PollTimeout{1000};
// Maximum number of concurrent lookups: claims wait in the same queue.
constexpr size_t MostPolling = 1000;
// How many waiters or cohorts are handled before the lock is given back.
constexpr size_t LockPortion = 64;

// Whether a waiter that saw this attempt running must be woken now.
bool hasChanged(const store::LookUpResult& result, protocol::Attempt seen) {
  if (std::holds_alternative<store::Unavailable>(result)) {
    return false;
  }
  const auto* record = std::get_if<store::Record>(&result);
  return record == nullptr || record->state != protocol::RecordState::InProgress ||
         record->attempt != seen || !record->lease_alive;
}

store::Deadline nextTick(store::Deadline time) {
  return store::Deadline(std::chrono::ceil<Ticks>(time.time_since_epoch()));
}

}  // namespace

// --- Coming and going

Waiters::Ticket Waiters::add(const protocol::Identity& identity, protocol::Attempt seen,
                             store::MonotonicTime now, store::Deadline until,
                             std::function<void()> wake_waiter) {
  auto waiter = std::make_shared<Waiter>();
  waiter->wake = std::move(wake_waiter);
  std::list<Waiter*> place{waiter.get()};
  store::Deadline next = until;
  {
    const std::lock_guard lock(mutex_);
    // What can fail comes first.
    waiter->cohort = cohortFor(identity, seen, now);
    waiter->deadline = deadlines_.emplace(until, waiter);
    waiter->place = place.begin();
    waiter->cohort->waiters.splice(waiter->cohort->waiters.end(), place);
    ++size_;
    if (waiter->cohort->poll.has_value()) {
      next = std::min(next, (*waiter->cohort->poll)->first);
    }
  }
  wakeBy(next);
  return waiter;
}

void Waiters::remove(const Ticket& ticket) {
  Ticket taken;  // Destroyed after the lock is given back.
  const std::lock_guard lock(mutex_);
  if (ticket->waits) {
    taken = takeOut(*ticket);
  }
}

Waiters::CohortPtr Waiters::cohortFor(const protocol::Identity& identity, protocol::Attempt seen,
                                      store::MonotonicTime now) {
  std::vector<CohortPtr>& cohorts = cohorts_[identity];
  const auto found = std::find_if(cohorts.begin(), cohorts.end(),
                                  [seen](const CohortPtr& cohort) { return cohort->seen == seen; });
  if (found != cohorts.end()) {
    return *found;
  }
  auto cohort = std::make_shared<Cohort>(identity, seen);
  cohort->interval = FirstInterval;
  cohorts.push_back(cohort);
  ++known_;
  schedule(cohort, now, FirstInterval);
  return cohort;
}

void Waiters::forget(Cohort& cohort) {
  if (!std::exchange(cohort.known, false)) {
    return;
  }
  const auto group = cohorts_.find(cohort.identity);
  std::erase_if(group->second, [&](const CohortPtr& other) { return other.get() == &cohort; });
  if (group->second.empty()) {
    cohorts_.erase(group);
  }
  --known_;
  if (cohort.poll.has_value()) {
    polls_.erase(*std::exchange(cohort.poll, std::nullopt));
  }
}

Waiters::Ticket Waiters::takeOut(Waiter& waiter) {
  waiter.waits = false;
  Ticket ticket = std::move(waiter.deadline->second);
  deadlines_.erase(waiter.deadline);
  --size_;
  // Held here: the polls may hold the last other reference.
  const CohortPtr cohort = waiter.cohort;
  cohort->waiters.erase(waiter.place);
  if (cohort->waiters.empty()) {
    forget(*cohort);
  }
  return ticket;
}

// --- Waking

void Waiters::wakeAll(const protocol::Identity& identity) {
  if (size() == 0) {
    return;
  }
  std::vector<CohortPtr> cohorts;
  {
    const std::lock_guard lock(mutex_);
    if (const auto group = cohorts_.find(identity); group != cohorts_.end()) {
      cohorts = group->second;
      for (const CohortPtr& cohort : cohorts) {
        forget(*cohort);
      }
    }
  }
  for (const CohortPtr& cohort : cohorts) {
    wakeCohort(*cohort);
  }
}

// No waiter joins it any more, but members may leave in the meantime.
void Waiters::wakeCohort(Cohort& cohort) {
  for (;;) {
    std::vector<Ticket> taken;
    {
      const std::lock_guard lock(mutex_);
      while (!cohort.waiters.empty() && taken.size() < LockPortion) {
        taken.push_back(takeOut(*cohort.waiters.front()));
      }
    }
    if (taken.empty()) {
      return;
    }
    for (const Ticket& ticket : taken) {
      ticket->wake();
    }
  }
}

std::vector<Waiters::Ticket> Waiters::takeLate(store::MonotonicTime now) {
  std::vector<Ticket> late;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now && late.size() < LockPortion) {
    late.push_back(takeOut(*deadlines_.begin()->second));
  }
  return late;
}

void Waiters::wakeLate(store::MonotonicTime now) {
  for (;;) {
    std::vector<Ticket> late;
    {
      const std::lock_guard lock(mutex_);
      late = takeLate(now);
    }
    if (late.empty()) {
      return;
    }
    for (const Ticket& ticket : late) {
      ticket->wake();
    }
  }
}

// --- Polling

store::Deadline Waiters::onTime(store::MonotonicTime now) {
  wakeLate(now);
  std::vector<CohortPtr> due = dueCohorts(now);
  const auto held_here = std::partition(due.begin(), due.end(), [this](const CohortPtr& cohort) {
    return cohort->slow || !is_held_here_(cohort->seen);
  });
  postpone({held_here, due.end()}, now);
  due.erase(held_here, due.end());
  if (!due.empty()) {
    poll(std::move(due), now);
  }
  const std::lock_guard lock(mutex_);
  store::Deadline next = deadlines_.empty() ? store::Deadline::max() : deadlines_.begin()->first;
  if (!polls_.empty() && polling_ < MostPolling) {
    next = std::min(next, polls_.begin()->first);
  }
  return next;
}

void Waiters::schedule(const CohortPtr& cohort, store::MonotonicTime now, milliseconds interval) {
  const auto crowd = std::chrono::ceil<milliseconds>(known_ * IntervalPerCohort);
  cohort->poll = polls_.emplace(nextTick(now + std::max(interval, crowd)), cohort);
}

bool Waiters::takeDue(store::MonotonicTime now, std::vector<CohortPtr>& due) {
  const size_t enough = due.size() + LockPortion;
  while (!polls_.empty() && polls_.begin()->first <= now && polling_ + due.size() < MostPolling) {
    if (due.size() == enough) {
      return true;
    }
    CohortPtr cohort = std::move(polls_.begin()->second);
    polls_.erase(*std::exchange(cohort->poll, std::nullopt));
    due.push_back(std::move(cohort));
  }
  return false;
}

std::vector<Waiters::CohortPtr> Waiters::dueCohorts(store::MonotonicTime now) {
  std::vector<CohortPtr> due;
  for (bool more = true; more;) {
    const std::lock_guard lock(mutex_);
    more = takeDue(now, due);
  }
  return due;
}

void Waiters::postpone(std::span<const CohortPtr> cohorts, store::MonotonicTime now) {
  while (!cohorts.empty()) {
    const auto portion = cohorts.first(std::min(cohorts.size(), LockPortion));
    cohorts = cohorts.subspan(portion.size());
    const std::lock_guard lock(mutex_);
    for (const CohortPtr& cohort : portion) {
      // It may have been woken since it was found to be held.
      if (cohort->known) {
        cohort->slow = true;
        schedule(cohort, now, HeldHereInterval);
      }
    }
  }
}

void Waiters::poll(std::vector<CohortPtr> cohorts, store::MonotonicTime now) {
  {
    const std::lock_guard lock(mutex_);
    polling_ += cohorts.size();
  }
  std::vector<protocol::Identity> identities;
  identities.reserve(cohorts.size());
  for (const CohortPtr& cohort : cohorts) {
    identities.push_back(cohort->identity);
  }
  store_.lookUpMany(
      std::move(identities), now + PollTimeout,
      [this, now, cohorts = std::move(cohorts)](size_t place, const store::LookUpResult& result) {
        onFound(cohorts.at(place), now, result);
      });
}

void Waiters::onFound(const CohortPtr& cohort, store::Deadline asked,
                      const store::LookUpResult& result) {
  if (const auto* record = std::get_if<store::Record>(&result)) {
    on_found_(cohort->identity, *record, asked);
  }
  const bool changed = hasChanged(result, cohort->seen);
  cohort->slow = !changed && is_held_here_(cohort->seen);
  std::optional<store::Deadline> next;
  {
    const std::lock_guard lock(mutex_);
    // Others were kept back by this one.
    if (polling_-- >= MostPolling) {
      next = store::Deadline::min();
    }
    if (changed) {
      forget(*cohort);
    } else if (cohort->known) {
      cohort->interval = std::min(cohort->interval * 2, LongestInterval);
      schedule(cohort, std::chrono::steady_clock::now(),
               cohort->slow ? HeldHereInterval : cohort->interval);
      next = std::min(next.value_or(store::Deadline::max()), (*cohort->poll)->first);
    }
  }
  if (changed) {
    wakeCohort(*cohort);
  }
  if (next.has_value()) {
    wakeBy(*next);
  }
}

}  // namespace idempotency::runtime
