#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <absl/status/statusor.h>

#include "source/operator_api/api.h"
#include "source/store/operator_store.h"

namespace idempotency::operator_api {

// One call of the store, and who waits for its answer.
struct DeskJob {
  StoreCall call;
  // Asked on the desk's thread before the call: false leaves the call out, and no answer is given.
  std::function<bool()> wanted;
  // On the desk's thread, unless the desk ends first. Must not block.
  std::function<void(ApiAnswer)> done;
};

// Lets the calls of many threads reach a store that blocks: a thread of its own makes them one
// after the other, and a bounded number waits. The store is opened by the first call, and again
// after one that failed.
class StoreDesk {
public:
  using Open = std::function<absl::StatusOr<std::unique_ptr<store::OperatorStore>>()>;
  using Warn = std::function<void(const std::string&)>;

  // `open` and `warn` are called on the desk's thread. A job that has waited for longer than
  // `patience` is not done any more: it is answered as unavailable.
  StoreDesk(Open open, Warn warn, uint32_t max_waiting, std::chrono::milliseconds patience);
  StoreDesk(const StoreDesk&) = delete;
  StoreDesk& operator=(const StoreDesk&) = delete;
  // Waits for the call that is being made. Jobs that still wait are forgotten.
  ~StoreDesk();

  // Any thread. False: too many jobs wait, and the job is forgotten.
  [[nodiscard]] bool submit(DeskJob job);

private:
  struct Waiting {
    DeskJob job;
    std::chrono::steady_clock::time_point since;
  };

  void run();
  void serve(const Waiting& waiting);
  ApiAnswer answer(const StoreCall& call);
  absl::StatusOr<ApiAnswer> guarded(const StoreCall& call);
  absl::StatusOr<ApiAnswer> callStore(const StoreCall& call);

  const Open open_;
  const Warn warn_;
  const uint32_t max_waiting_;
  const std::chrono::milliseconds patience_;
  std::unique_ptr<store::OperatorStore> store_;  // The thread's own.

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Waiting> waiting_;  // Guarded by mutex_.
  bool stopping_ = false;        // Guarded by mutex_.
  std::thread thread_;           // Last: it uses all the others.
};

}  // namespace idempotency::operator_api
