#include "source/runtime/alarms.h"

#include <vector>

namespace idempotency::runtime {

Alarms::Ticket Alarms::set(store::Deadline time, std::function<void()> ring) {
  Ticket ticket;
  {
    const std::lock_guard lock(mutex_);
    ticket = {time, ++last_};
    alarms_.emplace(ticket, std::move(ring));
  }
  wakeBy(time);
  return ticket;
}

void Alarms::cancel(const Ticket& ticket) {
  decltype(alarms_)::node_type removed;  // Destroyed without the lock.
  const std::lock_guard lock(mutex_);
  removed = alarms_.extract(ticket);
}

store::Deadline Alarms::onTime(store::MonotonicTime now) {
  std::vector<std::function<void()>> due;
  store::Deadline next = store::Deadline::max();
  {
    const std::lock_guard lock(mutex_);
    while (!alarms_.empty() && alarms_.begin()->first.first <= now) {
      due.push_back(std::move(alarms_.begin()->second));
      alarms_.erase(alarms_.begin());
    }
    if (!alarms_.empty()) {
      next = alarms_.begin()->first.first;
    }
  }
  for (const std::function<void()>& ring : due) {
    try {
      ring();
    } catch (...) {  // No memory: this one is lost, and the others continue.
    }
  }
  return next;
}

}  // namespace idempotency::runtime
