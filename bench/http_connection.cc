#include "bench/http_connection.h"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

namespace idempotency::bench {

HttpConnection::~HttpConnection() {
  close(socket_);
}

void HttpConnection::onReady() {
  char buffer[65536];
  while (!plan_.failed()) {
    const ssize_t size = recv(socket_, buffer, sizeof(buffer), 0);
    if (size > 0) {
      onData({buffer, static_cast<size_t>(size)});
      if (static_cast<size_t>(size) == sizeof(buffer)) {
        continue;
      }
    } else if (size == 0) {
      plan_.onFailure("the server closed a connection");
    } else if (errno != EAGAIN && errno != EINTR) {
      plan_.onFailure(std::strerror(errno));
    }
    break;
  }
  flush();
}

void HttpConnection::flush() {
  while (blocked()) {
    const ssize_t size =
        send(socket_, output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL);
    if (size < 0) {
      if (errno != EAGAIN && errno != EINTR) {
        plan_.onFailure(std::strerror(errno));
      }
      return;
    }
    sent_ += static_cast<size_t>(size);
  }
  output_.clear();
  sent_ = 0;
}

}  // namespace idempotency::bench
