#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "source/store/store.h"

namespace idempotency::runtime {

// How a connection to the private listener ended.
enum class DialEnd : uint8_t {
  Refused,   // It could not be opened: no such socket, no listener, no rights, no descriptor.
  Full,      // There are too many connections, or the listener's backlog stayed full.
  Closed,    // The listener closed it, or it broke, and nothing came back.
  Disowned,  // The same, after the listener said that it does not know the run.
  Answered,  // The same, after anything else came back.
  TimedOut,  // The deadline passed: the dialer closed it.
};

// The header, as HTTP/1.1 writes it, by which the listener says that it does not know a run.
inline constexpr std::string_view DisownedLine = "\r\nidempotency-run: unknown\r\n";

// Sends detached runs to the private listener of this Envoy, each as a request on its own UNIX
// socket connection. The connection keeps the run alive. The response does not come back this way:
// only the beginning of what the listener sends is kept, to tell how the connection ended.
//
// Any thread; no call blocks. A separate thread sends what did not fit immediately, notices when a
// connection ends, and enforces the deadlines. The lock guards everything; it is held during system
// calls that do not block, never during a callback. A descriptor belongs to the entry of its
// connection and is closed with it. After a connection has been reported, it is closed only after
// its callback, so that the listener does not see the end before the callback has run.
class RunDialer {
public:
  // Runs at most once, on the dialer's thread or in the destructor. The reason is a constant.
  using Ended = std::function<void(DialEnd, std::string_view reason)>;

  RunDialer(std::string path, size_t max_connections);
  // Ends all connections, with Closed.
  ~RunDialer();
  RunDialer(const RunDialer&) = delete;
  RunDialer& operator=(const RunDialer&) = delete;

  // Opens a connection and sends the bytes. The caller chooses `id`, which must not be in use. If
  // it throws (no memory), there is no connection and `ended` does not run.
  void dial(uint64_t id, std::string bytes, store::Deadline deadline, Ended ended);
  // These have no effect on a connection that has ended. False: it has ended.
  bool setDeadline(uint64_t id, store::Deadline deadline);
  // `ended` does not run any more, unless it is already about to.
  void close(uint64_t id);

  // Open ones, and those that are being opened.
  size_t connections() const;

private:
  struct Connection {
    uint64_t id = 0;
    std::string bytes;
    store::Deadline deadline{};
    Ended ended;
    int descriptor = -1;
    size_t sent = 0;
    bool sends = false;  // The socket was full: the thread sends the rest.
    bool waits = false;  // For space in the listener's backlog: in waiting_, else in open_.
    std::array<char, 256> heard{};  // The beginning of what came back.
    size_t heard_size = 0;
    DialEnd end = DialEnd::Closed;  // From here on: of one in ended_.
    std::string_view reason{};
  };
  // A connection moves from list to list, which allocates nothing and so cannot fail.
  using Connections = std::list<Connection>;
  using Entry = Connections::iterator;

  // --- With the lock. Nothing here throws.
  // False: the listener's backlog is full.
  bool open(Entry connection);
  void openWaiting();
  void send(Entry connection);
  // Takes what has come; false: the connection is over.
  static bool receive(Connection& connection);
  static DialEnd endOf(const Connection& connection);
  void finish(Entry connection, DialEnd end, std::string_view reason);
  // From now on, only the caller has it, in `to`.
  void remove(Entry connection, Connections& to);
  // The thread is notified of its end and, if it sends, when it can send more.
  bool watch(const Connection& connection, int operation) const;
  void wakeBy(store::Deadline time);
  void wake() const;

  // --- The thread.
  void run();
  void onEvent(uint64_t id, uint32_t events);
  void keepDeadlines(store::MonotonicTime now);
  int waitMilliseconds();
  void runCallbacks();

  const std::string path_;
  const size_t max_connections_;
  const int epoll_;
  const int event_;  // Wakes the thread.

  mutable std::mutex mutex_;
  Connections open_;                           // All below: guarded by mutex_.
  Connections waiting_;                        // In their order: none overtakes another.
  Connections ended_;                          // Their callbacks are due.
  std::unordered_map<uint64_t, Entry> by_id_;  // The open and the waiting ones,
  std::set<std::pair<store::Deadline, uint64_t>> deadlines_;  // and so here.
  store::Deadline wakes_at_ = store::Deadline::max();         // When the thread wakes up by itself.
  bool stops_ = false;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace idempotency::runtime
