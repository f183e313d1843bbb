#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "source/store/store.h"
#include "test/support/fake_database.h"

namespace idempotency::test {

// A store that really works, in memory, with a thread of its own, and that a test can disturb.
class FakeStore : public DatabaseStore {
public:
  explicit FakeStore(std::shared_ptr<FakeDatabase> database = std::make_shared<FakeDatabase>());
  ~FakeStore() override;

  // Nothing is carried out until resume(); deadlines still pass.
  void pause();
  void resume();
  // Everything gets Unavailable with this reason (see QueueFull), until none is given.
  void setFailure(std::optional<std::string> reason);
  // The next operation is carried out, but its caller learns only that it is in doubt.
  void loseNextAnswer();

  // How many operations it has been asked for, its own among them.
  uint64_t operations();
  // Waits until all that it has been asked for so far is answered; not while it is paused.
  void flush();

  // Store
  void abandon(store::ClaimRef claim) override;
  store::StoreStatus status() const override;

private:
  struct Operation {
    Call call;
    bool abandoned = false;
    bool own = false;  // The store's own release of an abandoned claim: waits until it can be done.
  };
  // How an operation ends.
  enum class Fate { Refused, CarriedOut, AnswerLost };

  // DatabaseStore
  void post(Call call) override;

  void add(Operation operation);
  void run();
  // The next operation that can end now, with how; none: wait. The lock is held.
  std::optional<Operation> take(Fate& fate, std::string& reason);
  void finish(const Operation& operation, Fate fate, const std::string& reason);
  store::Deadline earliestDeadline() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> operations_;
  uint64_t posted_ = 0;
  uint64_t finished_ = 0;
  bool paused_ = false;
  bool stopping_ = false;
  bool lose_next_answer_ = false;
  std::optional<std::string> failure_;
  std::thread thread_;  // Last: the rest is there when it starts.
};

}  // namespace idempotency::test
