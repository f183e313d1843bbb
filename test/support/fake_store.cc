#include "test/support/fake_store.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace idempotency::test {

FakeStore::FakeStore(std::shared_ptr<FakeDatabase> database)
    : DatabaseStore(std::move(database)), thread_([this] { run(); }) {}

FakeStore::~FakeStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FakeStore::pause() {
  const std::lock_guard lock(mutex_);
  paused_ = true;
}

void FakeStore::resume() {
  {
    const std::lock_guard lock(mutex_);
    paused_ = false;
  }
  changed_.notify_all();
}

void FakeStore::setFailure(std::optional<std::string> reason) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(reason);
  }
  changed_.notify_all();
}

void FakeStore::loseNextAnswer() {
  const std::lock_guard lock(mutex_);
  lose_next_answer_ = true;
}

store::StoreStatus FakeStore::status() const {
  const std::lock_guard lock(mutex_);
  store::StoreStatus status;
  status.queued = operations_.size();
  status.refuses = failure_.has_value();
  status.batches = finished_;
  status.operations = finished_;
  return status;
}

uint64_t FakeStore::operations() {
  const std::lock_guard lock(mutex_);
  return posted_;
}

void FakeStore::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, all = posted_] { return finished_ >= all; });
}

void FakeStore::add(Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    ++posted_;
    operations_.push_back(std::move(operation));
  }
  changed_.notify_all();
}

void FakeStore::post(Call call) {
  add({.call = std::move(call)});
}

void FakeStore::abandon(store::ClaimRef claim) {
  {
    const std::lock_guard lock(mutex_);
    for (Operation& operation : operations_) {
      const std::optional<store::ClaimRef>& other = operation.call.claim;
      if (other.has_value() && other->attempt == claim.attempt &&
          other->identity == claim.identity) {
        operation.abandoned = true;
      }
    }
  }
  Call release;
  release.effect = [this, claim = std::move(claim)] {
    std::ignore = database().settle(claim, protocol::Released{});
  };
  release.answer = [](Verdict, const std::string&) {};
  add({.call = std::move(release), .own = true});
}

void FakeStore::finish(const Operation& operation, Fate fate, const std::string& reason) {
  const Call& call = operation.call;
  switch (fate) {
    case Fate::CarriedOut:
      call.effect();
      return call.answer(Verdict::True, {});
    case Fate::AnswerLost:
      call.effect();
      if (call.claim.has_value()) {
        abandon(*call.claim);  // No request runs with it.
      }
      return call.answer(Verdict::InDoubt, reason);
    case Fate::Refused:
      break;
  }
  call.answer(Verdict::Refused, reason);
}

store::Deadline FakeStore::earliestDeadline() const {
  store::Deadline earliest = store::Deadline::max();
  for (const Operation& operation : operations_) {
    earliest = std::min(earliest, operation.call.deadline);
  }
  return earliest;
}

std::optional<FakeStore::Operation> FakeStore::take(Fate& fate, std::string& reason) {
  const store::MonotonicTime now = std::chrono::steady_clock::now();
  const auto canEnd = [&](const Operation& operation) {
    const bool stuck = paused_ || (operation.own && failure_.has_value());
    return stopping_ || !stuck || operation.abandoned || operation.call.deadline <= now;
  };
  const auto found = std::find_if(operations_.begin(), operations_.end(), canEnd);
  if (found == operations_.end()) {
    return std::nullopt;
  }
  Operation operation = std::move(*found);
  operations_.erase(found);
  fate = Fate::Refused;
  if (operation.abandoned) {
    reason = "abandoned";
  } else if (operation.call.deadline <= now) {
    reason = "deadline";
  } else if (paused_) {
    reason = "stopping";
  } else if (failure_.has_value()) {
    reason = *failure_;
  } else {
    fate = std::exchange(lose_next_answer_, false) ? Fate::AnswerLost : Fate::CarriedOut;
    reason = "answer lost";
  }
  return operation;
}

void FakeStore::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Fate fate = Fate::Refused;
    std::string reason;
    if (std::optional<Operation> operation = take(fate, reason); operation.has_value()) {
      lock.unlock();
      finish(*operation, fate, reason);
      operation.reset();  // Its closures may own what calls us.
      lock.lock();
      ++finished_;
      changed_.notify_all();
    } else if (stopping_) {
      return;
    } else if (const store::Deadline earliest = earliestDeadline();
               earliest == store::Deadline::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, earliest);
    }
  }
}

}  // namespace idempotency::test
