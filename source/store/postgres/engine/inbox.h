#pragma once

#include <functional>
#include <mutex>
#include <variant>
#include <vector>

#include "source/store/postgres/operations/operation.h"
#include "source/store/postgres/wire/resolver.h"

namespace idempotency::postgres {

struct Abandon {
  store::ClaimRef claim;
};
// A task for the store's thread: a result that needs no database.
using Task = std::function<void()>;
using Message = std::variant<OperationPtr, Abandon, Resolution, Task>;

// How other threads reach the store's thread: a list under a lock, and an eventfd that wakes it if
// it sleeps. There is no system call while it is awake, for messages from its own callbacks, or
// while it waits for more than a single operation. The eventfd is never read, so wait for edges
// (EPOLLET).
class Inbox {
public:
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // -1 if the kernel refused it.
  int fd() const { return fd_; }

  // Any thread. An operation may have to wait for others before it is seen: see fallAsleep().
  void push(Message message);
  // The same for several, which are seen together.
  void pushAll(std::vector<Message> messages);
  // The same, but does not wake the thread. True: the thread that waits for fd() must be woken,
  // unless takeLone() succeeds.
  [[nodiscard]] bool add(Message message);
  void wake();
  // Any thread, instead of wake(): takes the message, if there is exactly one and it is an
  // operation with a deadline after `now`. The store's thread refuses operations that are too late.
  [[nodiscard]] OperationPtr takeLone(store::MonotonicTime now);

  // The store's thread: takes all messages. `messages` must be empty.
  void take(std::vector<Message>& messages);
  // Before the store's thread waits for fd(), or continues to wait: from now on fd() gets an edge
  // when there are this many operations, or at the first message of another kind. False: this is
  // already the case, so it must not wait.
  [[nodiscard]] bool fallAsleep(size_t operations);
  // The store's thread, after it waited, whatever woke it.
  void wakeUp();

private:
  // With the lock held.
  bool addLocked(Message message);
  bool isDue() const { return urgent_ || messages_.size() >= patience_; }

  const int fd_;
  std::mutex mutex_;
  // All guarded by mutex_.
  std::vector<Message> messages_;
  bool urgent_ = false;  // One of them is not an operation.
  bool asleep_ = false;
  size_t patience_ = 1;  // How many operations wake the thread.
};

}  // namespace idempotency::postgres
