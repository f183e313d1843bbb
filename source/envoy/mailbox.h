#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "source/envoy/types.h"

namespace idempotency::envoy {

// Envoy's handle for running something on the thread of a stream (its worker) or of a config
// (main). Owns the handle and releases it on the thread of its last owner, whichever that is. It
// may outlive the stream; commit() then does nothing.
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
// drains it, and by those who will answer it.
//
// A closure runs at most once, on the owner's thread, in the order of posting. After close() none
// runs; close() destroys those that still wait, on the owner's thread. If a closure must not get
// lost, its state must show whether it ran.
class Mailbox {
public:
  using Task = std::function<void()>;

  explicit Mailbox(Scheduler scheduler) : scheduler_(std::move(scheduler)) {}

  // Any thread. False: the owner is gone, and the task was destroyed on this thread.
  bool post(Task task);

  // The owner's thread. Runs all waiting tasks. A task may end the stream, and so destroy the owner
  // and close this mailbox: the caller must hold its own shared_ptr. If a task throws, the drain
  // ends, and the remaining tasks stay for the next one.
  void drain();

  // The owner's thread, once, when the owner is destroyed.
  void close();

private:
  // Takes the oldest task; none if closed or empty.
  Task take();

  const Scheduler scheduler_;
  std::mutex mutex_;         // Never held while a task runs or is destroyed.
  std::vector<Task> tasks_;  // Guarded by mutex_. In the order of posting, from next_ on.
  size_t next_ = 0;          // Guarded by mutex_.
  bool closed_ = false;      // Guarded by mutex_.
};

}  // namespace idempotency::envoy
