#include "source/runtime/settler.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "source/runtime/timer_thread.h"
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

  store::ClaimRef claim(const std::string& key) {
    store::ClaimRequest request;
    request.identity = {"acme", "pay", key};
    request.attempt = store::newAttempt();
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(store_->database().claim(request)));
    return {request.identity, request.attempt};
  }

  // Notes what is reported, in order.
  runtime::SettleRequest request(store::ClaimRef claim, protocol::Ending ending,
                                 std::chrono::milliseconds report_in = 60s,
                                 std::chrono::milliseconds until = 60s) {
    runtime::SettleRequest made;
    made.claim = std::move(claim);
    made.ending = std::move(ending);
    made.report_by = steady_clock::now() + report_in;
    made.until = steady_clock::now() + until;
    made.report = [this](const runtime::SettleReport& report) {
      note(static_cast<int>(report.settled));
    };
    made.on_done = [this](bool certain) { note(certain ? Done : DoneBySomebody); };
    made.on_over = [this] { note(Over); };
    return made;
  }
  static protocol::Completed completion(const std::string& response) {
    protocol::Completed made;
    made.status = 200;
    made.response = response;
    return made;
  }

  void settle(runtime::SettleRequest request) {
    settler_->settle(std::move(request), steady_clock::now());
  }
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
  protocol::RecordState stateOf(const store::ClaimRef& claim) {
    const store::LookUpResult result = store_->database().lookUp(claim.identity);
    const auto* record = std::get_if<store::Record>(&result);
    return record == nullptr ? protocol::RecordState::Expired : record->state;
  }
  std::vector<int> notes() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

  void note(int what) {
    {
      const std::lock_guard lock(mutex_);
      notes_.push_back(what);
    }
    overs_ += what == Over ? 1 : 0;
  }

  static constexpr int Done = 100;
  static constexpr int Over = 101;
  static constexpr int DoneBySomebody = 102;

  std::unique_ptr<FakeStore> store_ = std::make_unique<FakeStore>();
  std::shared_ptr<runtime::Settler> settler_ =
      std::make_shared<runtime::Settler>(*store_, 10s, 1000);
  std::unique_ptr<runtime::TimerThread> timer_ = std::make_unique<runtime::TimerThread>(
      std::vector<std::shared_ptr<runtime::TimedTask>>{settler_});

private:
  std::mutex mutex_;
  std::vector<int> notes_;
  std::atomic<size_t> overs_{0};
};

using Notes = std::vector<int>;
constexpr int NotYet = static_cast<int>(runtime::Settled::NotYet);
constexpr int Never = static_cast<int>(runtime::Settled::Never);
constexpr int Fenced = static_cast<int>(runtime::Settled::Fenced);
constexpr int IsDone = static_cast<int>(runtime::Settled::Done);

TEST_F(SettlerTest, EachEndingMovesItsRecord) {
  const store::ClaimRef completed = claim("a");
  const store::ClaimRef failed = claim("b");
  const store::ClaimRef released = claim("c");
  const store::ClaimRef unknown = claim("d");
  settle(request(completed, completion("ok")));
  settle(request(failed, protocol::Failed{"status_503"}));
  settle(request(released, protocol::Released{}));
  settle(request(unknown, protocol::Unknown{"cut", std::nullopt}));
  waitUntilOver(4);
  EXPECT_EQ(stateOf(completed), protocol::RecordState::Completed);
  EXPECT_EQ(stateOf(failed), protocol::RecordState::FailedRetryable);
  EXPECT_EQ(store_->database().size(), 3u);
  EXPECT_EQ(stateOf(unknown), protocol::RecordState::Unknown);
  EXPECT_EQ(settler_->size(), 0u);
}

TEST_F(SettlerTest, WhatIsDoneIsToldInOrder) {
  settle(request(claim("a"), protocol::Released{}));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Done, IsDone, Over}));
}

TEST_F(SettlerTest, FencedIsToldAndNotTriedAgain) {
  store::ClaimRef other = claim("a");
  other.attempt += 1;
  settle(request(other, protocol::Failed{"x"}));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Fenced, Over}));
  EXPECT_EQ(stateOf(other), protocol::RecordState::InProgress);
}

TEST_F(SettlerTest, FailureIsTriedAgainUntilItIsDone) {
  const store::ClaimRef ref = claim("a");
  store_->setFailure("down");
  settle(request(ref, completion("ok")));
  waitFor([&] { return store_->operations() >= 3; });
  EXPECT_TRUE(notes().empty());
  store_->setFailure(std::nullopt);
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Done, IsDone, Over}));
  EXPECT_EQ(stateOf(ref), protocol::RecordState::Completed);
}

// The store was away for longer than the lease, and another process reached it first.
TEST_F(SettlerTest, ResultThatComesAfterTheSweepSettlesTheRecord) {
  const store::ClaimRef ref = claim("a");
  store_->setFailure("down");
  settle(request(ref, completion("ok")));
  waitFor([&] { return store_->operations() >= 2; });
  store_->database().passTime(25h);
  EXPECT_EQ(store_->database().sweep(10, std::nullopt).to_unknown, 1u);
  EXPECT_EQ(store_->database().reap(10, false).deleted, 0u);
  ASSERT_EQ(stateOf(ref), protocol::RecordState::Unknown);
  store_->setFailure(std::nullopt);
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Done, IsDone, Over}));
  EXPECT_EQ(stateOf(ref), protocol::RecordState::Completed);
}

TEST_F(SettlerTest, LostAnswerIsTriedAgain) {
  const store::ClaimRef ref = claim("a");
  store_->loseNextAnswer();
  settle(request(ref, completion("ok")));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{DoneBySomebody, IsDone, Over}));
}

TEST_F(SettlerTest, ResultThatSomebodyElseHasBroughtFencesTheOwnOne) {
  const store::ClaimRef ref = claim("a");
  ASSERT_EQ(store_->database().settle(ref, completion("found")).outcome, store::WriteOutcome::Done);
  settle(request(ref, completion("ok")));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Fenced, Over}));
}

// --- Own transactions

class OwnSettlerTest : public SettlerTest {
protected:
  store::ClaimRef ownClaim(const std::string& key) {
    store::ClaimRef made = claim(key);
    made.own_transaction = true;
    return made;
  }
  // As the upstream does it in its transaction.
  void completeElsewhere(const store::ClaimRef& claim) {
    store::ClaimRef plain = claim;
    plain.own_transaction = false;
    ASSERT_EQ(store_->database().settle(plain, completion("found")).outcome,
              store::WriteOutcome::Done);
  }
  runtime::SettleRequest ownRequest(store::ClaimRef claim, protocol::Ending ending,
                                    std::chrono::milliseconds report_in = 60s) {
    runtime::SettleRequest made = request(std::move(claim), std::move(ending), report_in);
    made.report = [this](const runtime::SettleReport& report) {
      note(static_cast<int>(report.settled));
      if (report.completed != nullptr) {
        reported_ = report.completed->response.body;
      }
    };
    made.on_completed_by_upstream = [this](const store::Record& record, store::Deadline asked) {
      EXPECT_LE(asked, steady_clock::now());
      note(Found);
      auto completed = std::make_shared<runtime::CompletedRecord>();
      completed->response.body = record.response.value_or("");
      return can_replay_ ? completed : nullptr;
    };
    return made;
  }

  static constexpr int Found = 103;
  static constexpr int ByUpstream = static_cast<int>(runtime::Settled::ByUpstream);
  bool can_replay_ = true;
  std::string reported_;
};

TEST_F(OwnSettlerTest, WhatTheUpstreamHasCompletedStaysWhateverTheEndingIs) {
  const std::vector<protocol::Ending> endings = {
      completion("ours"), protocol::Failed{"status_503"}, protocol::Released{},
      protocol::Unknown{"response_timeout", std::nullopt}};
  size_t settled = 0;
  for (const protocol::Ending& ending : endings) {
    const store::ClaimRef ref = ownClaim(std::to_string(ending.index()));
    completeElsewhere(ref);
    settle(ownRequest(ref, ending));
    waitUntilOver(++settled);
    const store::LookUpResult after = store_->database().lookUp(ref.identity);
    EXPECT_EQ(std::get<store::Record>(after).response, "found");
    EXPECT_EQ(reported_, "found");
  }
  Notes each = {Found, ByUpstream, Over};
  Notes all;
  for (size_t i = 0; i < endings.size(); ++i) {
    all.insert(all.end(), each.begin(), each.end());
  }
  EXPECT_EQ(notes(), all);
}

TEST_F(OwnSettlerTest, WhatTheUpstreamHasNotCompletedIsWritten) {
  const store::ClaimRef ref = ownClaim("a");
  settle(ownRequest(ref, completion("ours")));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Done, IsDone, Over}));
  EXPECT_EQ(stateOf(ref), protocol::RecordState::Completed);
}

TEST_F(OwnSettlerTest, OwnCompletionWhoseAnswerWasLostIsNotTheUpstreams) {
  store_->loseNextAnswer();
  settle(ownRequest(ownClaim("a"), completion("ours")));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Done, IsDone, Over}));
}

TEST_F(OwnSettlerTest, ResultThatCannotBeReplayedFences) {
  can_replay_ = false;
  const store::ClaimRef ref = ownClaim("a");
  completeElsewhere(ref);
  settle(ownRequest(ref, protocol::Failed{"status_503"}));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Found, Fenced, Over}));
}

TEST_F(OwnSettlerTest, WithoutMemoryForTheResultItIsReportedAllTheSame) {
  const store::ClaimRef ref = ownClaim("a");
  completeElsewhere(ref);
  runtime::SettleRequest starved = ownRequest(ref, completion("ours"));
  starved.on_completed_by_upstream =
      [](const store::Record&, store::Deadline) -> std::shared_ptr<const runtime::CompletedRecord> {
    throw std::bad_alloc();
  };
  settle(std::move(starved));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Fenced, Over}));
}

TEST_F(OwnSettlerTest, StoreThatIsDownIsAskedAgainAfterTheReport) {
  const store::ClaimRef ref = ownClaim("a");
  completeElsewhere(ref);
  store_->setFailure("down");
  settle(ownRequest(ref, completion("ours"), 10ms));
  waitFor([&] { return notes() == Notes{NotYet}; });
  store_->setFailure(std::nullopt);
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{NotYet, Found, Over}));
}

TEST_F(SettlerTest, OtherEndingsMayBeBroughtBySomebodyElse) {
  const store::ClaimRef failed = claim("a");
  const store::ClaimRef unknown = claim("b");
  store_->database().settle(failed, protocol::Failed{"resolved_not_run"});
  store_->database().settle(unknown, protocol::Unknown{"lease_expired", std::nullopt});
  settle(request(failed, protocol::Failed{"status_503"}));
  waitUntilOver();
  settle(request(unknown, protocol::Unknown{"cut", std::nullopt}));
  waitUntilOver(2);
  EXPECT_EQ(notes(), (Notes{Done, IsDone, Over, Done, IsDone, Over}));
}

TEST_F(SettlerTest, ReportComesInTimeAndTheWriteContinues) {
  const store::ClaimRef ref = claim("a");
  store_->pause();
  settle(request(ref, completion("ok"), 10ms));
  waitFor([&] { return notes() == Notes{NotYet}; });
  store_->resume();
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{NotYet, Done, Over}));
  EXPECT_EQ(stateOf(ref), protocol::RecordState::Completed);
}

TEST_F(SettlerTest, ItEndsWhenItsTimeIsOver) {
  const store::ClaimRef ref = claim("a");
  store_->setFailure("down");
  settle(request(ref, completion("ok"), 60s, 300ms));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Never, Over}));
  EXPECT_EQ(stateOf(ref), protocol::RecordState::InProgress);
}

// Somebody has locked the record, as only a database's transactions do.
class LockedStore : public FakeStore {
public:
  void settle(store::ClaimRef claim, protocol::Ending ending, store::Deadline deadline,
              std::function<void(store::WriteResult)> done) override {
    ++tries;
    if (locked) {
      done({store::WriteOutcome::Locked, "locked"});
    } else {
      FakeStore::settle(std::move(claim), std::move(ending), deadline, std::move(done));
    }
  }
  std::atomic<bool> locked{true};
  std::atomic<int> tries{0};
};

TEST_F(SettlerTest, LockedRecordIsWrittenOnceTheLockHasGoneHoweverLongAfterTheLease) {
  auto owned = std::make_unique<LockedStore>();
  LockedStore& locked = *owned;
  timer_.reset();
  store_ = std::move(owned);
  settler_ = std::make_shared<runtime::Settler>(*store_, 10s, 1000);
  timer_ = std::make_unique<runtime::TimerThread>(
      std::vector<std::shared_ptr<runtime::TimedTask>>{settler_});
  const store::ClaimRef ref = claim("a");
  const auto began = steady_clock::now();
  settle(request(ref, completion("ok"), 50ms, 300ms));
  waitFor([&] { return steady_clock::now() > began + 1500ms && locked.tries > 5; });
  EXPECT_EQ(notes(), (Notes{NotYet})) << "the client was told, and it is still tried";
  locked.locked = false;
  waitUntilOver();
  EXPECT_EQ(stateOf(ref), protocol::RecordState::Completed);
}

TEST_F(SettlerTest, BytesThatWaitAreBounded) {
  store_->setFailure("down");
  settle(request(claim("a"), completion(std::string(900, 'x'))));
  waitFor([&] { return store_->operations() >= 2; });
  settle(request(claim("b"), completion(std::string(200, 'x'))));
  waitUntilOver();
  EXPECT_EQ(notes(), (Notes{Never, Over})) << "the second";
  store_->setFailure(std::nullopt);
  waitUntilOver(2);
  EXPECT_EQ(settler_->size(), 0u);
}

}  // namespace
}  // namespace idempotency::test
