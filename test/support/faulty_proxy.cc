#include "test/support/faulty_proxy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace idempotency::test {
namespace {

constexpr int Tick = 20;  // Milliseconds between looks at what was told.

sockaddr_un addressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

bool sendAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

FaultyProxy::FaultyProxy(std::string listen_path, std::string server_path)
    : server_path_(std::move(server_path)), listener_(socket(AF_UNIX, SOCK_STREAM, 0)) {
  const sockaddr_un address = addressOf(listen_path);
  unlink(listen_path.c_str());
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener_, 64) != 0) {
    throw std::runtime_error("cannot listen on " + listen_path);
  }
  acceptor_ = std::thread([this] { accept(); });
}

FaultyProxy::~FaultyProxy() {
  stopping_ = true;
  acceptor_.join();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  close(listener_);
}

void FaultyProxy::aim(std::optional<Aim> aim) {
  const std::lock_guard lock(mutex_);
  aim_ = std::move(aim);
}

void FaultyProxy::accept() {
  while (!stopping_) {
    pollfd entry{.fd = listener_, .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, Tick) == 1) {
      const int client = ::accept(listener_, nullptr, nullptr);
      const std::lock_guard lock(mutex_);
      threads_.emplace_back([this, client] { serve(client); });
    }
  }
}

void FaultyProxy::serve(int client) {
  const int server = socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = addressOf(server_path_);
  bool open = connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  Link link{.client = client, .server = server, .lose_answer = false, .answer_gate = nullptr};
  while (open && !stopping_) {
    std::array<pollfd, 2> entries = {{{.fd = client, .events = POLLIN, .revents = 0},
                                      {.fd = server, .events = POLLIN, .revents = 0}}};
    if (poll(entries.data(), entries.size(), Tick) <= 0) {
      continue;
    }
    if (silent_) {
      usleep(Tick * 1000);
      continue;
    }
    open =
        (entries[0].revents == 0 || toServer(link)) && (entries[1].revents == 0 || toClient(link));
  }
  close(client);
  close(server);
}

bool FaultyProxy::toServer(Link& link) {
  std::array<char, 65536> data;
  const ssize_t size = recv(link.client, data.data(), data.size(), 0);
  if (size <= 0) {
    return false;
  }
  if (lose_requests_.exchange(0) > 0) {
    return false;
  }
  link.lose_answer = lose_answers_.exchange(0) > 0 || link.lose_answer;
  if (const auto aim = struckBy(link, {data.data(), static_cast<size_t>(size)})) {
    if (aim->answered) {
      link.answer_gate = aim->gate;
    } else if (!aim->gate->pass()) {
      return false;
    }
  }
  return sendAll(link.server, data.data(), static_cast<size_t>(size));
}

std::optional<FaultyProxy::Aim> FaultyProxy::struckBy(Link& link, std::string_view data) {
  std::optional<Aim> struck;
  link.messages.add(data, [&](std::string_view statement, std::string_view message) {
    const std::lock_guard lock(mutex_);
    if (aim_.has_value() && statement.starts_with(aim_->statement) &&
        message.find(aim_->parameter) != std::string_view::npos) {
      struck = std::exchange(aim_, std::nullopt);
    }
  });
  return struck;
}

bool FaultyProxy::toClient(Link& link) {
  std::array<char, 65536> data;
  const ssize_t size = recv(link.server, data.data(), data.size(), 0);
  if (size <= 0 || link.lose_answer) {
    return false;
  }
  if (const auto gate = std::exchange(link.answer_gate, nullptr); gate && !gate->pass()) {
    return false;
  }
  if (const int limit = cut_after_.exchange(-1); limit >= 0) {
    sendAll(link.client, data.data(), static_cast<size_t>(std::min<ssize_t>(limit, size)));
    return false;
  }
  const int piece = piece_size_ > 0 ? piece_size_.load() : static_cast<int>(size);
  for (ssize_t at = 0; at < size; at += piece) {
    if (!sendAll(link.client, data.data() + at,
                 static_cast<size_t>(std::min<ssize_t>(piece, size - at)))) {
      return false;
    }
  }
  return true;
}

}  // namespace idempotency::test
