#include "test/support/stepped_store.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace idempotency::test {
namespace {

const std::string Reason = "the test says so";

}  // namespace

SteppedStore::~SteppedStore() {
  // An answer may lead to another question: it is refused as well.
  while (!waiting_.empty() || !held_.empty()) {
    std::vector<Operation> all = std::exchange(held_, {});
    for (Operation& operation : std::exchange(waiting_, {})) {
      if (!operation.own) {
        all.push_back(std::move(operation));
      }
    }
    for (Operation& operation : all) {
      operation.answer(operation.late ? Verdict::True : operation.at_deadline, Reason);
    }
  }
}

// --- Steps

void SteppedStore::step(StepFate fate, size_t place) {
  auto at = waiting_.begin() + static_cast<std::ptrdiff_t>(place);
  at = at->own ? waiting_.begin() : at;
  Operation operation = std::move(*at);
  waiting_.erase(at);
  if (operation.own) {
    return stepOwn(fate, std::move(operation));
  }
  switch (fate) {
    case StepFate::CarriedOut:
      operation.effect();
      return operation.answer(Verdict::True, Reason);
    case StepFate::Refused:
      return operation.answer(Verdict::Refused, Reason);
    case StepFate::AnswerLost:
      operation.effect();
      return doubt(operation);
    case StepFate::RequestLost:
      return doubt(operation);
    case StepFate::EffectLater:
      effectLater(operation);
      return doubt(operation);
    case StepFate::NotSent:
      break;
    case StepFate::Unanswered:
      operation.effect();
      operation.at_deadline = Verdict::InDoubt;
      break;
    case StepFate::LostUnheard:
      operation.at_deadline = Verdict::InDoubt;
      break;
    case StepFate::AnsweredLate:
      operation.effect();
      operation.late = true;
      break;
  }
  held_.push_back(std::move(operation));
}

// The store does not give up what it owes: whatever goes wrong, it does it again.
void SteppedStore::stepOwn(StepFate fate, Operation operation) {
  const bool done = fate == StepFate::CarriedOut || fate == StepFate::AnswerLost ||
                    fate == StepFate::Unanswered || fate == StepFate::AnsweredLate;
  if (done) {
    operation.effect();
  }
  if (fate != StepFate::CarriedOut) {
    waiting_.push_front(std::move(operation));
  }
}

void SteppedStore::effectLater(const Operation& operation) {
  // A claim's fate is known only after its effect: its release comes with it.
  postOwn([this, effect = operation.effect, claim = operation.claim] {
    effect();
    if (claim.has_value()) {
      std::ignore = database().settle(*claim, protocol::Released{});
    }
  });
}

void SteppedStore::doubt(Operation& operation) {
  if (operation.claim.has_value()) {
    abandon(*operation.claim);  // Nobody runs for it.
  }
  operation.answer(Verdict::InDoubt, Reason);
}

size_t SteppedStore::answerLate() {
  const auto first = std::stable_partition(held_.begin(), held_.end(),
                                           [](const Operation& held) { return !held.late; });
  std::vector<Operation> late(std::make_move_iterator(first), std::make_move_iterator(held_.end()));
  held_.erase(first, held_.end());
  for (Operation& operation : late) {
    operation.answer(Verdict::True, Reason);
  }
  return late.size();
}

size_t SteppedStore::expire() {
  const store::MonotonicTime now = std::chrono::steady_clock::now();
  const auto isOver = [now](const Operation& operation) {
    return operation.deadline <= now && !operation.late && !operation.own;
  };
  std::vector<Operation> over;
  for (Operation& operation : held_) {
    if (isOver(operation)) {
      over.push_back(std::move(operation));
      operation.own = true;  // Moved from.
    }
  }
  std::erase_if(held_, [](const Operation& operation) { return operation.own; });
  for (auto operation = waiting_.begin(); operation != waiting_.end();) {
    if (isOver(*operation)) {
      over.push_back(std::move(*operation));
      operation = waiting_.erase(operation);
    } else {
      ++operation;
    }
  }
  for (Operation& operation : over) {
    if (operation.at_deadline == Verdict::InDoubt) {
      doubt(operation);
    } else {
      operation.answer(Verdict::Refused, Reason);
    }
  }
  return over.size();
}

store::Deadline SteppedStore::earliestDeadline() const {
  store::Deadline earliest = store::Deadline::max();
  for (const Operation& operation : held_) {
    earliest = operation.late ? earliest : std::min(earliest, operation.deadline);
  }
  return earliest;
}

// --- Operations

void SteppedStore::add(Operation operation) {
  ++asked_;
  waiting_.push_back(std::move(operation));
}

void SteppedStore::post(Call call) {
  Operation operation;
  static_cast<Call&>(operation) = std::move(call);
  add(std::move(operation));
}

void SteppedStore::postOwn(std::function<void()> effect) {
  Operation operation;
  operation.effect = std::move(effect);
  operation.own = true;
  add(std::move(operation));
}

void SteppedStore::claim(store::ClaimRequest request, store::Deadline deadline,
                         std::function<void(store::ClaimResult)> done) {
  auto unless_abandoned = [this, attempt = request.attempt,
                           done = std::move(done)](store::ClaimResult result) {
    const auto abandoned = std::find(abandoned_.begin(), abandoned_.end(), attempt);
    if (std::holds_alternative<store::Claimed>(result) && abandoned != abandoned_.end()) {
      result = store::Unavailable{"abandoned"};
    }
    done(std::move(result));
  };
  DatabaseStore::claim(std::move(request), deadline, std::move(unless_abandoned));
}

void SteppedStore::abandon(store::ClaimRef claim) {
  abandoned_.push_back(claim.attempt);
  postOwn([this, claim = std::move(claim)] {
    std::ignore = database().settle(claim, protocol::Released{});
  });
}

store::StoreStatus SteppedStore::status() const {
  store::StoreStatus status;
  status.queued = waiting_.size() + held_.size();
  return status;
}

}  // namespace idempotency::test
