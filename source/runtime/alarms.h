#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "source/runtime/timed_task.h"
#include "source/store/store.h"

namespace idempotency::runtime {

// Calls back at given times, once each. Any thread; the lock is never held during a callback.
class Alarms : public TimedTask {
public:
  // Of one alarm.
  using Ticket = std::pair<store::Deadline, uint64_t>;

  // `ring` runs on the timer's thread, at this time or a moment later.
  Ticket set(store::Deadline time, std::function<void()> ring);
  // It does not ring any more, unless it is about to.
  void cancel(const Ticket& ticket);

  // TimedTask
  store::Deadline onTime(store::MonotonicTime now) override;

private:
  std::mutex mutex_;
  std::map<Ticket, std::function<void()>> alarms_;  // Guarded by mutex_.
  uint64_t last_ = 0;                               // Guarded by mutex_.
};

}  // namespace idempotency::runtime
