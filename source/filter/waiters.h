#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "source/maintenance/timed_task.h"
#include "source/store/store.h"

namespace idempotency {

// Requests that are held because another one with their key runs (in_flight WAIT). A waiter is
// woken once: when the record changes here, when polling sees that it changed elsewhere, or when
// its time is over. It then asks the store as if it had just come, so a wake too many does no harm.
//
// Polling: one look-up per identity, however many wait for it; the store sends all that are due
// together. It begins fast and slows down to ten times a second.
//
// Any thread. The store must be destroyed before this: its callbacks lead here.
class Waiters : public TimedTask {
public:
  using Ticket = uint64_t;
  // What polling found, on its way to those who are woken.
  using OnFound = std::function<void(const Identity&, const Record&, Deadline asked)>;

  Waiters(Store& store, OnFound on_found) : store_(store), on_found_(std::move(on_found)) {}

  // `seen` is the attempt that runs. `wake` runs at most once, on the store's, the timer's or
  // another worker's thread, with the lock not held.
  Ticket add(const Identity& identity, Attempt seen, Deadline now, Deadline until,
             std::function<void()> wake);
  // The request is gone. A `wake` that is already on its way may still come.
  void remove(Ticket ticket);
  // The record of this identity changed in this process.
  void wakeAll(const Identity& identity);

  size_t size() const;

  // TimedTask
  Deadline onTime(Deadline now) override;

private:
  struct Waiter {
    Ticket ticket = 0;
    Attempt seen = 0;
    Deadline until{};
    std::function<void()> wake;
  };
  struct Group {
    std::vector<Waiter> waiters;
    std::chrono::milliseconds interval{0};
    Deadline next_poll{};
    bool polling = false;  // A look-up is under way.
  };
  using Groups = std::map<Identity, Group>;

  void onFound(const Identity& identity, Deadline asked, const LookUpResult& result);
  // With the lock held: takes out whoever satisfies the condition.
  template <class Condition>
  void take(Group& group, Condition condition, std::vector<Waiter>& taken);

  Store& store_;
  const OnFound on_found_;
  mutable std::mutex mutex_;  // Guards what follows; never held while a callback or the store runs.
  Groups groups_;
  std::map<Ticket, Identity> identities_;
  Ticket last_ticket_ = 0;
};

}  // namespace idempotency
