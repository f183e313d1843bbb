#include "source/store/postgres/engine/inbox.h"

#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace idempotency::postgres {

Inbox::Inbox() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Inbox::~Inbox() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

void Inbox::push(Message message) {
  if (add(std::move(message))) {
    wake();
  }
}

void Inbox::pushAll(std::vector<Message> messages) {
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    for (Message& message : messages) {
      wakes = addLocked(std::move(message)) || wakes;
    }
  }
  if (wakes) {
    wake();
  }
}

bool Inbox::add(Message message) {
  const std::lock_guard lock(mutex_);
  return addLocked(std::move(message));
}

bool Inbox::addLocked(Message message) {
  urgent_ = urgent_ || !std::holds_alternative<OperationPtr>(message);
  messages_.push_back(std::move(message));
  const bool wakes = asleep_ && isDue();
  // This wake-up also covers all messages that follow.
  asleep_ = asleep_ && !wakes;
  return wakes;
}

OperationPtr Inbox::takeLone(store::MonotonicTime now) {
  const std::lock_guard lock(mutex_);
  if (messages_.size() != 1 || urgent_) {
    return nullptr;
  }
  auto& lone = std::get<OperationPtr>(messages_.front());
  if (lone->deadline() <= now) {
    return nullptr;
  }
  OperationPtr taken = std::move(lone);
  messages_.clear();
  return taken;
}

void Inbox::wake() {
  const uint64_t one = 1;
  // The counter is full after 2^64 of them.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

void Inbox::take(std::vector<Message>& messages) {
  const std::lock_guard lock(mutex_);
  asleep_ = false;
  urgent_ = false;
  messages.swap(messages_);
}

bool Inbox::fallAsleep(size_t operations) {
  const std::lock_guard lock(mutex_);
  patience_ = operations;
  asleep_ = !isDue();
  return asleep_;
}

void Inbox::wakeUp() {
  const std::lock_guard lock(mutex_);
  asleep_ = false;
}

}  // namespace idempotency::postgres
