#pragma once

#include <cstdint>
#include <sys/epoll.h>

namespace idempotency::bench {

// Owns a socket that a poll waits for.
class Watched {
public:
  virtual ~Watched() = default;
  // The socket is ready: EPOLLIN, EPOLLOUT. May delete this.
  virtual void onReady(uint32_t events) = 0;
};

// EPOLL_CTL_ADD, or EPOLL_CTL_MOD.
inline void watch(int poll, int operation, int socket, uint32_t what, Watched* watched) {
  epoll_event event{};
  event.events = what;
  event.data.ptr = watched;
  epoll_ctl(poll, operation, socket, &event);
}

}  // namespace idempotency::bench
