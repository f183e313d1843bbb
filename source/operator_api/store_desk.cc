#include "source/operator_api/store_desk.h"

#include <utility>

namespace idempotency::operator_api {

StoreDesk::StoreDesk(Open open, Warn warn, uint32_t max_waiting, std::chrono::milliseconds patience)
    : open_(std::move(open)),
      warn_(std::move(warn)),
      max_waiting_(max_waiting),
      patience_(patience),
      thread_([this] { run(); }) {}

StoreDesk::~StoreDesk() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

bool StoreDesk::submit(DeskJob job) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= max_waiting_) {
      return false;
    }
    waiting_.push_back({std::move(job), std::chrono::steady_clock::now()});
  }
  work_.notify_one();
  return true;
}

void StoreDesk::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) {
      return;
    }
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    serve(next);
    lock.lock();
  }
}

void StoreDesk::serve(const Waiting& waiting) {
  if (!waiting.job.wanted()) {
    return;
  }
  const bool too_late = std::chrono::steady_clock::now() - waiting.since > patience_;
  waiting.job.done(too_late ? problemAnswer(ApiProblem::Overloaded) : answer(waiting.job.call));
}

ApiAnswer StoreDesk::answer(const StoreCall& call) {
  absl::StatusOr<ApiAnswer> result = guarded(call);
  if (result.ok()) {
    return *std::move(result);
  }
  const std::string reason(result.status().message());
  warn_(reason);
  store_.reset();  // Its connection may be lost.
  return problemAnswer(ApiProblem::StoreUnavailable, reason);
}

// No exception may end the thread, and with it Envoy.
absl::StatusOr<ApiAnswer> StoreDesk::guarded(const StoreCall& call) {
  try {
    return callStore(call);
  } catch (...) {  // No memory, say.
    return absl::InternalError("the call failed; a change may have been made");
  }
}

absl::StatusOr<ApiAnswer> StoreDesk::callStore(const StoreCall& call) {
  if (store_ == nullptr) {
    auto opened = open_();
    if (!opened.ok()) {
      return opened.status();
    }
    store_ = *std::move(opened);
  }
  return call(*store_);
}

}  // namespace idempotency::operator_api
