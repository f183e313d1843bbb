#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "source/store/store.h"
#include "test/support/fake_database.h"

namespace idempotency::test {

// What becomes of one operation of a store.
enum class StepFate : uint8_t {
  CarriedOut,
  Refused,       // Unavailable.
  AnswerLost,    // It took effect; the caller learns that it is in doubt.
  RequestLost,   // It had no effect; in doubt.
  EffectLater,   // In doubt; it takes effect after whatever else is waiting.
  NotSent,       // Waits for its deadline, unsent: Unavailable then.
  Unanswered,    // Takes effect and waits for its deadline: in doubt then.
  LostUnheard,   // Has no effect and waits for its deadline: in doubt then.
  AnsweredLate,  // Takes effect; the true answer comes by answerLate() or, failing that, at the
                 // end. What a process sees that stood still past its deadline.
};

// A Store over a FakeDatabase that does nothing by itself: each operation waits until the test
// takes a step. It keeps the contract of store.h whatever fate the test gives its operations: every
// callback runs once, and claims that ended in doubt or were abandoned are released by the store.
//
// One thread; callbacks run inside step(), expire() and the destructor, on the stack of the test.
class SteppedStore : public DatabaseStore {
public:
  explicit SteppedStore(std::shared_ptr<FakeDatabase> database)
      : DatabaseStore(std::move(database)) {}
  // Answers all that waits: what was not sent as refused, the rest as in doubt.
  ~SteppedStore() override;

  // How many operations were asked for, its own among them.
  uint64_t asked() const { return asked_; }
  // How many steps can be taken now.
  size_t waiting() const { return waiting_.size(); }
  // How many wait for their deadline, or for answerLate().
  size_t held() const { return held_.size(); }
  // The oldest one that waits, or the one at this place. Its fate is judged by the caller. What the
  // store owes does not overtake what it is about: the oldest one is taken in its place.
  void step(StepFate fate, size_t place = 0);
  // The true answers of what was AnsweredLate. How many.
  size_t answerLate();
  // Ends what has waited until its deadline. How many.
  size_t expire();
  store::Deadline earliestDeadline() const;

  // Store
  void claim(store::ClaimRequest request, store::Deadline deadline,
             std::function<void(store::ClaimResult)> done) override;
  void abandon(store::ClaimRef claim) override;
  store::StoreStatus status() const override;

private:
  struct Operation : Call {
    bool own = false;  // The store's own: it is done sooner or later.
    Verdict at_deadline = Verdict::Refused;
    bool late = false;  // AnsweredLate.
  };

  // DatabaseStore
  void post(Call call) override;

  void add(Operation operation);
  void postOwn(std::function<void()> effect);
  void stepOwn(StepFate fate, Operation operation);
  void effectLater(const Operation& operation);
  void doubt(Operation& operation);

  std::deque<Operation> waiting_;
  std::vector<Operation> held_;               // Wait for their deadline, or for answerLate().
  std::vector<protocol::Attempt> abandoned_;  // Their callbacks never say Claimed.
  uint64_t asked_ = 0;
};

}  // namespace idempotency::test
