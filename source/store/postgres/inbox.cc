#include "source/store/postgres/inbox.h"

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
  bool asleep = false;
  {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    asleep = std::exchange(asleep_, false);
  }
  // Whoever finds it asleep wakes it for all that follow.
  if (asleep) {
    wake();
  }
}

void Inbox::wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full: then the reader wakes anyway.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

void Inbox::take(std::vector<Message>& messages) {
  const std::lock_guard lock(mutex_);
  asleep_ = false;
  messages.swap(messages_);
}

bool Inbox::fallAsleep() {
  const std::lock_guard lock(mutex_);
  asleep_ = messages_.empty();
  return asleep_;
}

void Inbox::clearWake() {
  uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = read(fd_, &ignored, sizeof(ignored));
}

}  // namespace idempotency::postgres
