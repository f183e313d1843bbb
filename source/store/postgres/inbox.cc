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
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = messages_.empty();
    messages_.push_back(std::move(message));
  }
  // Whoever found it empty wakes the reader for all that follow.
  if (first) {
    wake();
  }
}

void Inbox::wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full: then the reader wakes anyway.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

void Inbox::take(std::vector<Message>& messages) {
  uint64_t ignored = 0;
  // Before the list: a message that comes in between wakes us once more, and none is missed.
  [[maybe_unused]] const ssize_t got = read(fd_, &ignored, sizeof(ignored));
  const std::lock_guard lock(mutex_);
  messages.swap(messages_);
}

}  // namespace idempotency::postgres
