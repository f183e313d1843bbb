#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "source/envoy/types.h"

namespace idempotency::envoy {

// Envoy's handle to run something on the thread of a stream (its worker) or of a config (main).
// Owns the handle and gives it back on whatever thread the last owner dies. It may outlive the
// stream; a commit then does nothing.
class Scheduler {
public:
  static Scheduler forStream(raw::StreamPtr stream);  // The stream's worker.
  static Scheduler forConfig(raw::ConfigPtr config);  // Main thread.
  Scheduler(Scheduler&& other) noexcept;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  Scheduler& operator=(Scheduler&&) = delete;
  ~Scheduler();

  // Any thread. The scheduled hook runs later with this number, unless the stream is gone by then.
  void commit(uint64_t event) const;

private:
  enum class Kind { Stream, Config };
  Scheduler(Kind kind, void* handle) : kind_(kind), handle_(handle) {}
  Kind kind_;
  void* handle_;
};

// Closures from any thread for the thread of one stream or config. Shared by the stream, which
// drains it, and by whoever will answer it.
//
// A closure runs at most once, on the owner's thread, in the order of posting. After close() none
// runs any more; those still waiting are destroyed by close(), on the owner's thread. So a closure
// that must not get lost needs state of its own that says whether it ran.
class Mailbox {
public:
  using Task = std::function<void()>;

  explicit Mailbox(Scheduler scheduler) : scheduler_(std::move(scheduler)) {}

  // Any thread. False: the owner is gone, the task was not kept and is destroyed on this thread.
  bool post(Task task);

  // Owner's thread. Runs what waits. A task may end the stream and so destroy the owner and close
  // this mailbox: the caller holds a shared_ptr of its own. A task that throws ends the drain; what
  // waits behind it stays for the next one.
  void drain();

  // Owner's thread, once, when the owner goes.
  void close();

private:
  // Takes the oldest task; none when closed or empty.
  Task take();

  const Scheduler scheduler_;
  std::mutex mutex_;         // Never held while a task runs or is destroyed.
  std::vector<Task> tasks_;  // Guarded by mutex_. In the order of posting, from next_ on.
  size_t next_ = 0;          // Guarded by mutex_.
  bool closed_ = false;      // Guarded by mutex_.
};

}  // namespace idempotency::envoy
