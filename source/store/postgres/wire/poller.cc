#include "source/store/postgres/wire/poller.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace idempotency::postgres {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

Poller::Poller() : fd_(epoll_create1(EPOLL_CLOEXEC)) {}

Poller::~Poller() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

bool Poller::watch(int fd, uint32_t events, uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(fd_, EPOLL_CTL_MOD, fd, &event) == 0) {
    return true;
  }
  return errno == ENOENT && epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void Poller::forget(int fd) {
  // A closed descriptor has already been removed by the kernel.
  epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr);
}

std::span<const epoll_event> Poller::wait(store::Deadline until) {
  constexpr nanoseconds Longest = std::chrono::seconds(60);
  nanoseconds left = Longest;
  if (const auto now = std::chrono::steady_clock::now(); until < now + Longest) {
    left = std::max<nanoseconds>(until - now, nanoseconds(0));
  }
  int count = -1;
  if (exact_) {
    count = waitExactly(left);
    exact_ = count >= 0 || errno != ENOSYS;
  }
  if (!exact_) {
    count = epoll_wait(fd_, events_.data(), static_cast<int>(events_.size()),
                       static_cast<int>(std::chrono::ceil<milliseconds>(left).count()));
  }
  return {events_.data(), static_cast<size_t>(std::max(count, 0))};
}

int Poller::waitExactly(nanoseconds left) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(left);
  const timespec time{whole.count(), (left - whole).count()};
  return epoll_pwait2(fd_, events_.data(), static_cast<int>(events_.size()), &time, nullptr);
}

}  // namespace idempotency::postgres
