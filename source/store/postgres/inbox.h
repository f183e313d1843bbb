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
// it sleeps. While it is awake, and for what its own callbacks push, nobody calls the kernel; nor
// while it has better things to wait for than a single operation. The eventfd is never read:
// whoever waits for it must watch for edges (EPOLLET).
class Inbox {
public:
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // -1: the kernel gave none.
  int fd() const { return fd_; }

  // Any thread. An operation may have to wait for others before it is seen: see fallAsleep().
  void push(Message message);
  // The same, but wakes nobody. True: whoever waits for fd() must be woken, or spared that by
  // takeLone().
  [[nodiscard]] bool add(Message message);
  void wake();
  // Any thread, instead of wake(): what has come, if it is one operation and nothing else, with a
  // deadline after `now`. What is too late is the store's thread's to refuse.
  [[nodiscard]] OperationPtr takeLone(Deadline now);

  // The store's thread: everything that has come. `messages` must be empty.
  void take(std::vector<Message>& messages);
  // Before the store's thread waits for fd(), or goes on to wait: from now on fd() gets an edge
  // when so many operations are there, or at the first message of another kind. False: that is so
  // already, so it must not wait.
  [[nodiscard]] bool fallAsleep(size_t operations);
  // The store's thread, after it waited, whatever woke it.
  void wakeUp();

private:
  bool isDue() const { return urgent_ || messages_.size() >= patience_; }

  const int fd_;
  std::mutex mutex_;
  // All guarded by mutex_.
  std::vector<Message> messages_;
  bool urgent_ = false;  // One of them is no operation.
  bool asleep_ = false;
  size_t patience_ = 1;  // How many operations are worth waking it.
};

}  // namespace idempotency::postgres
