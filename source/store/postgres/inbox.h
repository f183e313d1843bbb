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

// How other threads reach the store's thread: a list under a lock, and an eventfd that wakes it.
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

private:
  const int fd_;
  std::mutex mutex_;
  std::vector<Message> messages_;
};

}  // namespace idempotency::postgres
