#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <sys/epoll.h>

#include "source/store/store.h"

namespace idempotency::postgres {

// epoll, level-triggered. A tag identifies the ready descriptor.
class Poller {
public:
  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Watches a descriptor; adds it or changes what is watched. False: the kernel refused.
  [[nodiscard]] bool watch(int fd, uint32_t events, uint64_t tag);
  void forget(int fd);

  // Waits for events, until `until` at the longest.
  [[nodiscard]] std::span<const epoll_event> wait(store::Deadline until);

private:
  int waitExactly(std::chrono::nanoseconds left);

  const int fd_;
  bool exact_ = true;  // The kernel (from 5.11 on) waits for less than a millisecond.
  std::array<epoll_event, 72> events_{};
};

}  // namespace idempotency::postgres
