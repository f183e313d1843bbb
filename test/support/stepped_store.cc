#include "test/support/stepped_store.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace idempotency::test {
namespace {

using std::chrono::milliseconds;

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
      operation.answer(operation.late ? Verdict::True : operation.at_deadline);
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
      return operation.answer(Verdict::True);
    case StepFate::Refused:
      return operation.answer(Verdict::Refused);
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
  postOwn([database = database_, effect = operation.effect, claim = operation.claim] {
    effect();
    if (claim.has_value()) {
      std::ignore = database->release(*claim);
    }
  });
}

void SteppedStore::doubt(Operation& operation) {
  if (operation.claim.has_value()) {
    abandon(*operation.claim);  // Nobody runs for it.
  }
  operation.answer(Verdict::InDoubt);
}

size_t SteppedStore::answerLate() {
  const auto first = std::stable_partition(held_.begin(), held_.end(),
                                           [](const Operation& held) { return !held.late; });
  std::vector<Operation> late(std::make_move_iterator(first), std::make_move_iterator(held_.end()));
  held_.erase(first, held_.end());
  for (Operation& operation : late) {
    operation.answer(Verdict::True);
  }
  return late.size();
}

size_t SteppedStore::expire() {
  const Deadline now = std::chrono::steady_clock::now();
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
      operation.answer(Verdict::Refused);
    }
  }
  return over.size();
}

Deadline SteppedStore::earliestDeadline() const {
  Deadline earliest = Deadline::max();
  for (const Operation& operation : held_) {
    earliest = operation.late ? earliest : std::min(earliest, operation.deadline);
  }
  return earliest;
}

// --- Operations

void SteppedStore::post(Operation operation) {
  ++asked_;
  waiting_.push_back(std::move(operation));
}

template <typename Result>
void SteppedStore::post(Deadline deadline, std::function<Result(FakeDatabase&)> effect,
                        std::function<Result(bool in_doubt)> failure,
                        std::function<void(Result)> done, std::optional<ClaimRef> claim) {
  const auto result = std::make_shared<std::optional<Result>>();
  Operation operation;
  operation.deadline = deadline;
  operation.claim = std::move(claim);
  // A late effect finds the store gone, if need be, but not the database.
  operation.effect = [database = database_, effect = std::move(effect), result] {
    *result = effect(*database);
  };
  operation.answer = [failure = std::move(failure), done = std::move(done),
                      result](Verdict verdict) {
    if (verdict == Verdict::True) {
      done(*std::move(*result));
    } else {
      done(failure(verdict == Verdict::InDoubt));
    }
  };
  post(std::move(operation));
}

void SteppedStore::postWrite(Deadline deadline, std::function<WriteResult(FakeDatabase&)> effect,
                             std::function<void(WriteResult)> done) {
  post<WriteResult>(
      deadline, std::move(effect),
      [](bool in_doubt) {
        return WriteResult{in_doubt ? WriteOutcome::InDoubt : WriteOutcome::Unavailable, Reason};
      },
      std::move(done));
}

void SteppedStore::postOwn(std::function<void()> effect) {
  Operation operation;
  operation.effect = std::move(effect);
  operation.own = true;
  post(std::move(operation));
}

void SteppedStore::claim(ClaimRequest request, Deadline deadline,
                         std::function<void(ClaimResult)> done) {
  const ClaimRef ref{request.identity, request.attempt};
  post<ClaimResult>(
      deadline,
      [request = std::move(request)](FakeDatabase& database) { return database.claim(request); },
      [](bool in_doubt) -> ClaimResult {
        return in_doubt ? ClaimResult(InDoubt{Reason}) : Unavailable{Reason};
      },
      [this, ref, done = std::move(done)](ClaimResult result) {
        const auto abandoned = std::find(abandoned_.begin(), abandoned_.end(), ref.attempt);
        if (std::holds_alternative<Claimed>(result) && abandoned != abandoned_.end()) {
          result = Unavailable{"abandoned"};
        }
        done(std::move(result));
      },
      ref);
}

void SteppedStore::abandon(ClaimRef claim) {
  abandoned_.push_back(claim.attempt);
  postOwn(
      [database = database_, claim = std::move(claim)] { std::ignore = database->release(claim); });
}

void SteppedStore::complete(CompleteRequest request, Deadline deadline,
                            std::function<void(WriteResult)> done) {
  postWrite(
      deadline,
      [request = std::move(request)](FakeDatabase& database) { return database.complete(request); },
      std::move(done));
}

void SteppedStore::fail(FailRequest request, Deadline deadline,
                        std::function<void(WriteResult)> done) {
  postWrite(
      deadline,
      [request = std::move(request)](FakeDatabase& database) { return database.fail(request); },
      std::move(done));
}

void SteppedStore::release(ClaimRef claim, Deadline deadline,
                           std::function<void(WriteResult)> done) {
  postWrite(
      deadline,
      [claim = std::move(claim)](FakeDatabase& database) { return database.release(claim); },
      std::move(done));
}

void SteppedStore::markUnknown(UnknownRequest request, Deadline deadline,
                               std::function<void(WriteResult)> done) {
  postWrite(
      deadline,
      [request = std::move(request)](FakeDatabase& database) {
        return database.markUnknown(request);
      },
      std::move(done));
}

void SteppedStore::extend(std::vector<ClaimRef> claims, milliseconds lease, Deadline deadline,
                          std::function<void(ExtendResult)> done) {
  const size_t count = claims.size();
  post<ExtendResult>(
      deadline,
      [claims = std::move(claims), lease](FakeDatabase& database) {
        return database.extend(claims, lease);
      },
      [count](bool in_doubt) {
        return ExtendResult(
            count,
            WriteResult{in_doubt ? WriteOutcome::InDoubt : WriteOutcome::Unavailable, Reason});
      },
      std::move(done));
}

void SteppedStore::lookUp(Identity identity, Deadline deadline,
                          std::function<void(LookUpResult)> done) {
  post<LookUpResult>(
      deadline,
      [identity = std::move(identity)](FakeDatabase& database) {
        return database.lookUp(identity);
      },
      [](bool) -> LookUpResult { return Unavailable{Reason}; }, std::move(done));
}

StoreStatus SteppedStore::status() const {
  StoreStatus status;
  status.queued = waiting_.size() + held_.size();
  return status;
}

void SteppedStore::lead(std::string owner, milliseconds lease, Deadline deadline,
                        std::function<void(Leadership)> done) {
  post<Leadership>(
      deadline,
      [owner = std::move(owner), lease](FakeDatabase& database) {
        return database.lead(owner, lease);
      },
      [](bool) { return Leadership{.ours = false, .reason = Reason}; }, std::move(done));
}

void SteppedStore::sweep(uint32_t limit, std::optional<milliseconds> reconcile_after,
                         Deadline deadline, std::function<void(MaintenanceResult)> done) {
  post<MaintenanceResult>(
      deadline,
      [limit, reconcile_after](FakeDatabase& database) {
        return database.sweep(limit, reconcile_after);
      },
      [](bool) { return MaintenanceResult{.ok = false, .reason = Reason}; }, std::move(done));
}

void SteppedStore::reap(uint32_t limit, bool soft, Deadline deadline,
                        std::function<void(MaintenanceResult)> done) {
  post<MaintenanceResult>(
      deadline, [limit, soft](FakeDatabase& database) { return database.reap(limit, soft); },
      [](bool) { return MaintenanceResult{.ok = false, .reason = Reason}; }, std::move(done));
}

}  // namespace idempotency::test
