#include "source/runtime/run_dialer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace idempotency::runtime {
namespace {

using std::chrono::steady_clock;

constexpr uint64_t WakeUp = 0;  // In place of a connection's id, which is never 0.
constexpr std::chrono::milliseconds RetryInterval{2};
constexpr int MostEvents = 64;
constexpr size_t ScratchBytes = 4096;
constexpr int MostReads = 16;  // Of one connection, before it is another's turn.

std::string_view describe(int error) {
  const char* const text = strerrordesc_np(error);
  return text != nullptr ? text : "unknown error";
}

// None: no socket can have this path.
std::optional<sockaddr_un> addressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path) ||
      path.find('\0') != std::string::npos) {
    return std::nullopt;
  }
  path.copy(address.sun_path, path.size());
  return address;
}

}  // namespace

RunDialer::RunDialer(std::string path, size_t max_connections)
    : path_(std::move(path)),
      max_connections_(max_connections),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = WakeUp;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event);
  thread_ = std::thread([this] { run(); });
}

RunDialer::~RunDialer() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    wake();
  }
  thread_.join();
  {
    const std::lock_guard lock(mutex_);
    while (!by_id_.empty()) {
      finish(by_id_.begin()->second, DialEnd::Closed, "shutting down");
    }
  }
  runCallbacks();
  ::close(event_);
  ::close(epoll_);
}

void RunDialer::dial(uint64_t id, std::string bytes, store::Deadline deadline, Ended ended) {
  Connections fresh;
  fresh.push_back(
      {.id = id, .bytes = std::move(bytes), .deadline = deadline, .ended = std::move(ended)});
  const Entry connection = fresh.begin();
  const std::lock_guard lock(mutex_);
  const bool full = by_id_.size() >= max_connections_;
  // What may throw comes first.
  const auto named = by_id_.emplace(id, connection).first;
  try {
    deadlines_.emplace(deadline, id);
  } catch (...) {
    by_id_.erase(named);
    throw;
  }
  open_.splice(open_.end(), fresh);
  if (full) {
    finish(connection, DialEnd::Full, "too many runs (private_listener.max_runs)");
  } else if (deadline <= steady_clock::now()) {
    finish(connection, DialEnd::TimedOut, "timed out before it could be sent");
  } else {
    wakeBy(deadline);
    // A newcomer does not overtake those that wait.
    if (!waiting_.empty() || !open(connection)) {
      connection->waits = true;
      waiting_.splice(waiting_.end(), open_, connection);
      wakeBy(steady_clock::now() + RetryInterval);
    }
  }
}

bool RunDialer::setDeadline(uint64_t id, store::Deadline deadline) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return false;
  }
  Connection& connection = *found->second;
  // The node is moved, so that nothing is allocated.
  auto node = deadlines_.extract({connection.deadline, id});
  connection.deadline = deadline;
  node.value() = {deadline, id};
  deadlines_.insert(std::move(node));
  wakeBy(deadline);
  return true;
}

void RunDialer::close(uint64_t id) {
  Connections closed;  // Its callback is destroyed without the lock.
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return;
  }
  const Entry connection = found->second;
  remove(connection, closed);
  if (connection->descriptor >= 0) {
    ::close(connection->descriptor);  // Which also ends that epoll watches it.
  }
}

size_t RunDialer::connections() const {
  const std::lock_guard lock(mutex_);
  return by_id_.size();
}

// --- With the lock ------------------------------------------------------------------------------

bool RunDialer::open(Entry connection) {
  const std::optional<sockaddr_un> address = addressOf(path_);
  if (!address.has_value()) {
    finish(connection, DialEnd::Refused, "the path is not valid for a UNIX socket");
    return true;
  }
  int& descriptor = connection->descriptor;
  if (descriptor < 0) {
    descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  }
  if (descriptor < 0) {
    finish(connection, DialEnd::Refused, describe(errno));
    return true;
  }
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    if (errno == EAGAIN) {
      return false;
    }
    finish(connection, DialEnd::Refused, describe(errno));
  } else if (!watch(*connection, EPOLL_CTL_ADD)) {
    finish(connection, DialEnd::Refused, describe(errno));
  } else {
    send(connection);
  }
  return true;
}

void RunDialer::openWaiting() {
  while (!waiting_.empty()) {
    const Entry first = waiting_.begin();
    // As if it were open, because open() may finish it.
    first->waits = false;
    open_.splice(open_.end(), waiting_, first);
    if (!open(first)) {
      first->waits = true;
      waiting_.splice(waiting_.begin(), open_, first);
      return;
    }
  }
}

void RunDialer::send(Entry connection) {
  std::string& bytes = connection->bytes;
  while (connection->sent < bytes.size()) {
    const ssize_t sent = ::send(connection->descriptor, bytes.data() + connection->sent,
                                bytes.size() - connection->sent, MSG_NOSIGNAL);
    if (sent >= 0) {
      connection->sent += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      if (!std::exchange(connection->sends, true)) {
        watch(*connection, EPOLL_CTL_MOD);
      }
      return;
    } else if (errno != EINTR) {
      finish(connection, DialEnd::Closed, describe(errno));
      return;
    }
  }
  std::string().swap(bytes);  // An assignment would keep the memory, for as long as it runs.
  connection->sent = 0;
  if (std::exchange(connection->sends, false)) {
    watch(*connection, EPOLL_CTL_MOD);
  }
}

bool RunDialer::receive(Connection& connection) {
  std::array<char, ScratchBytes> scratch{};
  for (int i = 0; i < MostReads; ++i) {
    const ssize_t received = recv(connection.descriptor, scratch.data(), scratch.size(), 0);
    if (received == 0) {
      return false;
    }
    if (received < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    const size_t kept =
        std::min(static_cast<size_t>(received), connection.heard.size() - connection.heard_size);
    std::copy_n(scratch.data(), kept, connection.heard.data() + connection.heard_size);
    connection.heard_size += kept;
  }
  return true;
}

DialEnd RunDialer::endOf(const Connection& connection) {
  const std::string_view heard(connection.heard.data(), connection.heard_size);
  if (heard.empty()) {
    return DialEnd::Closed;
  }
  return heard.find(DisownedLine) != std::string_view::npos ? DialEnd::Disowned : DialEnd::Answered;
}

void RunDialer::finish(Entry connection, DialEnd end, std::string_view reason) {
  connection->end = end;
  connection->reason = reason;
  if (connection->descriptor >= 0) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, connection->descriptor, nullptr);
  }
  remove(connection, ended_);
  wake();
}

void RunDialer::remove(Entry connection, Connections& to) {
  by_id_.erase(connection->id);
  deadlines_.erase({connection->deadline, connection->id});
  to.splice(to.end(), connection->waits ? waiting_ : open_, connection);
}

bool RunDialer::watch(const Connection& connection, int operation) const {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  if (connection.sends) {
    event.events |= EPOLLOUT;
  }
  event.data.u64 = connection.id;
  return epoll_ctl(epoll_, operation, connection.descriptor, &event) == 0;
}

void RunDialer::wakeBy(store::Deadline time) {
  if (time < wakes_at_) {
    wakes_at_ = time;
    wake();
  }
}

void RunDialer::wake() const {
  const uint64_t one = 1;
  (void)!write(event_, &one, sizeof(one));
}

// --- The thread ---------------------------------------------------------------------------------

void RunDialer::run() {
  std::array<epoll_event, MostEvents> events{};
  for (;;) {
    const int count = epoll_wait(epoll_, events.data(), MostEvents, waitMilliseconds());
    {
      const std::lock_guard lock(mutex_);
      if (stops_) {
        return;
      }
      for (int i = 0; i < count; ++i) {
        onEvent(events[i].data.u64, events[i].events);
      }
      keepDeadlines(steady_clock::now());
      openWaiting();
    }
    runCallbacks();
  }
}

void RunDialer::onEvent(uint64_t id, uint32_t events) {
  if (id == WakeUp) {
    uint64_t wakes = 0;
    (void)!read(event_, &wakes, sizeof(wakes));
    return;
  }
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return;
  }
  const Entry connection = found->second;
  const bool ends = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  const bool is_open = (!ends && (events & EPOLLIN) == 0) || receive(*connection);
  if (ends || !is_open) {
    finish(connection, endOf(*connection), "closed by the listener");
  } else if ((events & EPOLLOUT) != 0) {
    send(connection);
  }
}

void RunDialer::keepDeadlines(store::MonotonicTime now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Entry connection = by_id_.find(deadlines_.begin()->second)->second;
    if (connection->waits) {
      finish(connection, DialEnd::Full, "its backlog is full");
    } else {
      finish(connection, DialEnd::TimedOut, "no answer in time");
    }
  }
}

int RunDialer::waitMilliseconds() {
  const std::lock_guard lock(mutex_);
  const store::MonotonicTime now = steady_clock::now();
  wakes_at_ = waiting_.empty() ? store::Deadline::max() : now + RetryInterval;
  if (!deadlines_.empty()) {
    wakes_at_ = std::min(wakes_at_, deadlines_.begin()->first);
  }
  if (!ended_.empty() || wakes_at_ <= now) {
    return 0;
  }
  if (wakes_at_ == store::Deadline::max()) {
    return -1;
  }
  // Rounded up, so that it does not wake a moment too early, again and again.
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wakes_at_ - now).count();
  return static_cast<int>(std::min<int64_t>(wait, 3'600'000));
}

void RunDialer::runCallbacks() {
  Connections due;
  {
    const std::lock_guard lock(mutex_);
    due.swap(ended_);
  }
  for (const Connection& connection : due) {
    try {
      connection.ended(connection.end, connection.reason);
    } catch (...) {  // No memory: its report is lost, and the others continue.
    }
    // Only now, so that the reason is known before anyone sees the end of the connection.
    if (connection.descriptor >= 0) {
      ::close(connection.descriptor);
    }
  }
}

}  // namespace idempotency::runtime
