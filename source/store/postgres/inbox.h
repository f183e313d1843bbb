#pragma once

#include <functional>
#include <mutex>
#include <variant>
#include <vector>

#include "source/store/postgres/operation.h"
#include "source/store/postgres/resolver.h"

namespace idempotency::postgres {

struct Abandon {
  ClaimRef claim;
};
// Something to be run on the store's thread: an answer that needs no database.
using Task = std::function<void()>;
using Message = std::variant<OperationPtr, Abandon, Resolution, Task>;

// How other threads reach the store's thread: a list under a lock, and an eventfd that wakes it if
// it sleeps. While it is awake, and for what its own callbacks push, nobody calls the kernel.
class Inbox {
public:
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // -1: the kernel gave none.
  int fd() const { return fd_; }

  // Any thread.
  void push(Message message);
  void wake();

  // The store's thread: everything that has come. `messages` must be empty.
  void take(std::vector<Message>& messages);
  // The store's thread, before it waits for fd(): from now on a message makes fd() readable. False:
  // one has come already, so it must not wait.
  [[nodiscard]] bool fallAsleep();
  // The store's thread, when fd() is readable: it is not any longer.
  void clearWake();

private:
  const int fd_;
  std::mutex mutex_;
  std::vector<Message> messages_;  // Guarded by mutex_.
  bool asleep_ = false;            // Guarded by mutex_.
};

}  // namespace idempotency::postgres
