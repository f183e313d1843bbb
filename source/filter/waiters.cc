#include "source/filter/waiters.h"

#include <algorithm>
#include <utility>

namespace idempotency {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds FirstInterval{10};
constexpr milliseconds LongestInterval{100};
// A look-up that takes longer is asked again.
constexpr milliseconds PollTimeout{1000};

void run(const auto& waiters) {
  for (const auto& waiter : waiters) {
    waiter.wake();
  }
}

// Whether somebody who saw this attempt run has something to do now.
bool hasChanged(const LookUpResult& result, Attempt seen) {
  if (std::holds_alternative<Unavailable>(result)) {
    return false;
  }
  const auto* record = std::get_if<Record>(&result);
  return record == nullptr || record->state != RecordState::InProgress || record->attempt != seen ||
         !record->lease_alive;
}

}  // namespace

Waiters::Ticket Waiters::add(const Identity& identity, Attempt seen, Deadline now, Deadline until,
                             std::function<void()> wake_waiter) {
  Ticket ticket = 0;
  Deadline next = until;
  {
    const std::lock_guard lock(mutex_);
    ticket = ++last_ticket_;
    identities_.emplace(ticket, identity);
    Group& group = groups_[identity];
    if (group.waiters.empty()) {
      group.interval = FirstInterval;
      group.next_poll = now + FirstInterval;
    }
    next = std::min(next, group.next_poll);
    group.waiters.push_back(Waiter{ticket, seen, until, std::move(wake_waiter)});
  }
  wakeBy(next);
  return ticket;
}

void Waiters::remove(Ticket ticket) {
  std::vector<Waiter> taken;  // Destroyed after the lock is given back.
  const std::lock_guard lock(mutex_);
  const auto found = identities_.find(ticket);
  if (found == identities_.end()) {
    return;
  }
  const auto group = groups_.find(found->second);
  take(
      group->second, [&](const Waiter& waiter) { return waiter.ticket == ticket; }, taken);
  if (group->second.waiters.empty() && !group->second.polling) {
    groups_.erase(group);
  }
}

void Waiters::wakeAll(const Identity& identity) {
  std::vector<Waiter> taken;
  {
    const std::lock_guard lock(mutex_);
    const auto group = groups_.find(identity);
    if (group == groups_.end()) {
      return;
    }
    take(
        group->second, [](const Waiter&) { return true; }, taken);
    if (!group->second.polling) {
      groups_.erase(group);
    }
  }
  run(taken);
}

size_t Waiters::size() const {
  const std::lock_guard lock(mutex_);
  return identities_.size();
}

Deadline Waiters::onTime(Deadline now) {
  std::vector<Waiter> late;
  std::vector<Identity> polls;
  Deadline next = Deadline::max();
  {
    const std::lock_guard lock(mutex_);
    for (auto item = groups_.begin(); item != groups_.end();) {
      Group& group = item->second;
      take(
          group, [&](const Waiter& waiter) { return waiter.until <= now; }, late);
      if (group.waiters.empty() && !group.polling) {
        item = groups_.erase(item);
        continue;
      }
      if (!group.waiters.empty() && !group.polling && group.next_poll <= now) {
        polls.push_back(item->first);
        group.polling = true;
      }
      if (!group.polling) {
        next = std::min(next, group.next_poll);
      }
      for (const Waiter& waiter : group.waiters) {
        next = std::min(next, waiter.until);
      }
      ++item;
    }
  }
  run(late);
  for (Identity& identity : polls) {
    auto done = [this, identity, now](const LookUpResult& result) {
      onFound(identity, now, result);
    };
    store_.lookUp(std::move(identity), now + PollTimeout, std::move(done));
  }
  return next;
}

void Waiters::onFound(const Identity& identity, Deadline asked, const LookUpResult& result) {
  if (const auto* record = std::get_if<Record>(&result)) {
    on_found_(identity, *record, asked);
  }
  std::vector<Waiter> taken;
  {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(identity);
    if (found == groups_.end()) {
      return;
    }
    Group& group = found->second;
    take(
        group, [&](const Waiter& waiter) { return hasChanged(result, waiter.seen); }, taken);
    group.polling = false;
    group.interval = std::min(group.interval * 2, LongestInterval);
    group.next_poll = std::chrono::steady_clock::now() + group.interval;
    if (group.waiters.empty()) {
      groups_.erase(found);
    }
  }
  run(taken);
  wake();
}

template <class Condition>
void Waiters::take(Group& group, Condition condition, std::vector<Waiter>& taken) {
  const auto first =
      std::stable_partition(group.waiters.begin(), group.waiters.end(),
                            [&](const Waiter& waiter) { return !condition(waiter); });
  for (auto waiter = first; waiter != group.waiters.end(); ++waiter) {
    identities_.erase(waiter->ticket);
    taken.push_back(std::move(*waiter));
  }
  group.waiters.erase(first, group.waiters.end());
}

}  // namespace idempotency
