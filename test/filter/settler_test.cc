#include "source/filter/settler.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "source/maintenance/timer_thread.h"
#include "test/support/fake_store.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class SettlerTest : public ::testing::Test {
protected:
  ~SettlerTest() override {
    timer_.reset();
    store_.reset();
  }

  ClaimRef claim(const std::string& key) {
    ClaimRequest request;
    request.identity = {"acme", "pay", key};
    request.attempt = newAttempt();
    EXPECT_TRUE(std::holds_alternative<Claimed>(store_->database().claim(request)));
    return {request.identity, request.attempt};
  }

  // Notes what is reported, in order.
  SettleRequest request(Ending ending, std::chrono::milliseconds report_in = 60s,
                        std::chrono::milliseconds until = 60s) {
    SettleRequest made;
    made.ending = std::move(ending);
    made.report_by = steady_clock::now() + report_in;
    made.until = steady_clock::now() + until;
    made.report = [this](Settled settled, const std::string&) { note(static_cast<int>(settled)); };
    made.on_done = [this] { note(Done); };
    made.on_over = [this] { note(Over); };
    return made;
  }
  static CompleteRequest completion(const ClaimRef& claim, const std::string& response) {
    CompleteRequest made;
    made.claim = claim;
    made.status = 200;
    made.response = response;
    return made;
  }

  void settle(SettleRequest request) { settler_->settle(std::move(request), steady_clock::now()); }
  void waitUntilOver(size_t count = 1) {
    waitFor([&] { return overs_ == count; });
  }
  void waitFor(const std::function<bool()>& condition) {
    const auto end = steady_clock::now() + 60s;
    while (!condition()) {
      ASSERT_LT(steady_clock::now(), end);
      std::this_thread::sleep_for(1ms);
    }
  }
  RecordState stateOf(const ClaimRef& claim) {
    const LookUpResult result = store_->database().lookUp(claim.identity);
    const auto* record = std::get_if<Record>(&result);
    return record == nullptr ? RecordState::Expired : record->state;
  }
  std::vector<int> notes() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

  static constexpr int Done = 100;
  static constexpr int Over = 101;

  std::unique_ptr<FakeStore> store_ = std::make_unique<FakeStore>();
  std::shared_ptr<Settler> settler_ = std::make_shared<Settler>(*store_, 10s, 1000);
  std::unique_ptr<TimerThread> timer_ =
      std::make_unique<TimerThread>(std::vector<std::shared_ptr<TimedTask>>{settler_});

private:
  void note(int what) {
    {
      const std::lock_guard lock(mutex_);
      notes_.push_back(what);
    }
    overs_ += what == Over ? 1 : 0;
  }

  std::mutex mutex_;
  std::vector<int> notes_;
  std::atomic<size_t> overs_{0};
};

using Notes = std::vector<int>;
constexpr int NotYet = static_cast<int>(Settled::NotYet);
constexpr int Never = static_cast<int>(Settled::Never);
constexpr int Fenced = static_cast<int>(Settled::Fenced);
constexpr int IsDone = static_cast<int>(Settled::Done);

TEST_F(SettlerTest, EachEndingMovesItsRecord) {
  const ClaimRef completed = claim("a");
  const ClaimRef failed = claim("b");
  const ClaimRef released = claim("c");
  const ClaimRef unknown = claim("d");
  settle(request(completion(completed, "ok")));
  settle(request(FailRequest{failed, "status_503"}));
  settle(request(ReleaseRequest{released}));
  settle(request(UnknownRequest{unknown, "cut", std::nullopt}));
  waitUntilOver(4);
  EXPECT_EQ(stateOf(completed), RecordState::Completed);
  EXPECT_EQ(stateOf(failed), RecordState::FailedRetryable);
  EXPECT_EQ(store_->database().size(), 3u);
  EXPECT_EQ(stateOf(unknown), RecordState::Unknown);
  EXPECT_EQ(settler_->size(), 0u);
}

TEST_F(SettlerTest, WhatIsDoneIsToldInOrder) {
  settle(request(ReleaseRequest{claim("a")}));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Done, IsDone, Over}));
}

TEST_F(SettlerTest, FencedIsToldAndNotTriedAgain) {
  ClaimRef other = claim("a");
  other.attempt += 1;
  settle(request(FailRequest{other, "x"}));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Fenced, Over}));
  EXPECT_EQ(stateOf(other), RecordState::InProgress);
}

TEST_F(SettlerTest, FailureIsTriedAgainUntilItIsDone) {
  const ClaimRef ref = claim("a");
  store_->setFailure("down");
  settle(request(completion(ref, "ok")));
  waitFor([&] { return store_->operations() >= 3; });
  EXPECT_TRUE(notes().empty());
  store_->setFailure(std::nullopt);
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Done, IsDone, Over}));
  EXPECT_EQ(stateOf(ref), RecordState::Completed);
}

TEST_F(SettlerTest, LostAnswerIsTriedAgain) {
  const ClaimRef ref = claim("a");
  store_->loseNextAnswer();
  settle(request(completion(ref, "ok")));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Done, IsDone, Over}));
}

TEST_F(SettlerTest, ReportComesInTimeAndTheWriteGoesOn) {
  const ClaimRef ref = claim("a");
  store_->pause();
  settle(request(completion(ref, "ok"), 10ms));
  waitFor([&] { return notes() == Notes{NotYet}; });
  store_->resume();
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{NotYet, Done, Over}));
  EXPECT_EQ(stateOf(ref), RecordState::Completed);
}

TEST_F(SettlerTest, ItEndsWithTheLease) {
  const ClaimRef ref = claim("a");
  store_->setFailure("down");
  settle(request(completion(ref, "ok"), 60s, 300ms));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Never, Over}));
  EXPECT_EQ(stateOf(ref), RecordState::InProgress);
}

TEST_F(SettlerTest, BytesThatWaitAreBounded) {
  store_->setFailure("down");
  settle(request(completion(claim("a"), std::string(900, 'x'))));
  waitFor([&] { return store_->operations() >= 2; });
  settle(request(completion(claim("b"), std::string(200, 'x'))));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Never, Over})) << "the second";
  store_->setFailure(std::nullopt);
  waitUntilOver(2);
  EXPECT_EQ(settler_->size(), 0u);
}

}  // namespace
}  // namespace idempotency::test
