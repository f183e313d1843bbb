// How a store calls back: once, on its own thread, in time, also when it stops; and what becomes of
// claims that nobody waits for any more.
#include <set>
#include <vector>

#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

Deadline past() {
  return std::chrono::steady_clock::now() - 1ms;
}

TEST_P(StoreContractTest, CallbacksRunOnceAndAllOnTheStoresThread) {
  const ClaimRequest request = claimRequest(identity("thread"));
  const ClaimRef ref{request.identity, request.attempt};
  Answer<ClaimResult> claimed;
  Answer<LookUpResult> found;
  Answer<ExtendResult> extended;
  Answer<WriteResult> completed;
  Answer<WriteResult> failed;
  Answer<WriteResult> released;
  Answer<WriteResult> unknown;
  Answer<ClaimResult> refused;
  store().claim(request, soon(), claimed.callback());
  claimed.get();
  store().lookUp(ref.identity, soon(), found.callback());
  store().extend({ref}, 1h, soon(), extended.callback());
  store().complete(completeRequest(ref), soon(), completed.callback());
  store().fail({ref, "code"}, soon(), failed.callback());
  store().release(ref, soon(), released.callback());
  store().markUnknown({ref, "code", {}}, soon(), unknown.callback());
  store().claim(claimRequest(ref.identity), past(), refused.callback());
  found.get();
  extended.get();
  completed.get();
  failed.get();
  released.get();
  unknown.get();
  refused.get();
  const std::set<std::thread::id> threads = {claimed.thread(),   found.thread(),  extended.thread(),
                                             completed.thread(), failed.thread(), released.thread(),
                                             unknown.thread(),   refused.thread()};
  EXPECT_EQ(threads.size(), 1U);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 0U);
  rig_->stop();
  EXPECT_EQ(claimed.calls(), 1);
  EXPECT_EQ(found.calls(), 1);
  EXPECT_EQ(extended.calls(), 1);
  EXPECT_EQ(completed.calls(), 1);
  EXPECT_EQ(failed.calls(), 1);
  EXPECT_EQ(released.calls(), 1);
  EXPECT_EQ(unknown.calls(), 1);
  EXPECT_EQ(refused.calls(), 1);
}

TEST_P(StoreContractTest, CallFromACallbackIsAnsweredLater) {
  const ClaimRequest request = claimRequest(identity("nested"));
  Answer<LookUpResult> nested;
  Answer<bool> outer;
  store().claim(request, soon(), [&, report = outer.callback()](const ClaimResult&) {
    store().lookUp(request.identity, soon(), nested.callback());
    store().lookUp(request.identity, past(), [](const LookUpResult&) {});
    report(nested.calls() == 0);
  });
  EXPECT_TRUE(outer.get());
  EXPECT_TRUE(std::holds_alternative<Record>(nested.get()));
}

TEST_P(StoreContractTest, CallbackIsDestroyedAfterItRan) {
  auto owned = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = owned;
  Answer<LookUpResult> answer;
  store().lookUp(identity("x"), soon(),
                 [owned = std::move(owned), report = answer.callback()](LookUpResult result) {
                   report(std::move(result));
                 });
  answer.get();
  EXPECT_TRUE(eventually([&] { return watch.expired(); }));
}

// --- Deadlines

TEST_P(StoreContractTest, DeadlineThatIsOverChangesNothing) {
  const ClaimRef ref = mustClaim(identity("old"));
  const std::optional<Record> before = lookUp(ref.identity);
  Answer<ClaimResult> claimed;
  Answer<WriteResult> completed;
  Answer<WriteResult> failed;
  Answer<WriteResult> released;
  Answer<WriteResult> unknown;
  Answer<ExtendResult> extended;
  Answer<LookUpResult> found;
  store().claim(claimRequest(identity("new")), past(), claimed.callback());
  store().complete(completeRequest(ref), past(), completed.callback());
  store().fail({ref, "code"}, past(), failed.callback());
  store().release(ref, past(), released.callback());
  store().markUnknown({ref, "code", {}}, past(), unknown.callback());
  store().extend({ref, ref}, 7h, past(), extended.callback());
  store().lookUp(ref.identity, past(), found.callback());
  EXPECT_TRUE(std::holds_alternative<Unavailable>(claimed.get()));
  EXPECT_EQ(completed.get().outcome, WriteOutcome::Unavailable);
  EXPECT_NE(completed.get().reason, "");
  EXPECT_EQ(failed.get().outcome, WriteOutcome::Unavailable);
  EXPECT_EQ(released.get().outcome, WriteOutcome::Unavailable);
  EXPECT_EQ(unknown.get().outcome, WriteOutcome::Unavailable);
  ASSERT_EQ(extended.get().size(), 2U);
  EXPECT_EQ(extended.get()[1].outcome, WriteOutcome::Unavailable);
  EXPECT_TRUE(std::holds_alternative<Unavailable>(found.get()));
  EXPECT_TRUE(isAbsent(identity("new")));
  EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
}

TEST_P(StoreContractTest, DeadlineIsKeptWhileTheStoreIsStuck) {
  const ClaimRef ref = mustClaim(identity("held"));
  rig_->block();
  const auto start = std::chrono::steady_clock::now();
  const Deadline deadline = start + 100ms;
  Answer<ClaimResult> claimed;
  Answer<WriteResult> completed;
  store().claim(claimRequest(identity("new")), deadline, claimed.callback());
  store().complete(completeRequest(ref), deadline, completed.callback());
  const ClaimResult claim_result = claimed.get();
  const WriteResult write_result = completed.get();
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, 100ms);
  EXPECT_LT(waited, 5s);
  EXPECT_TRUE(std::holds_alternative<Unavailable>(claim_result) ||
              std::holds_alternative<InDoubt>(claim_result))
      << "alternative " << claim_result.index();
  EXPECT_TRUE(write_result.outcome == WriteOutcome::Unavailable ||
              write_result.outcome == WriteOutcome::InDoubt);
  rig_->unblock();
  EXPECT_TRUE(eventually([&] { return isAbsent(identity("new")); }));
  if (write_result.outcome == WriteOutcome::Unavailable) {
    EXPECT_EQ(mustFind(ref.identity).state, RecordState::InProgress);
  }
  EXPECT_EQ(complete(completeRequest(ref)), WriteOutcome::Done) << "safe to repeat";
  rig_->stop();
  EXPECT_EQ(claimed.calls(), 1);
  EXPECT_EQ(completed.calls(), 1);
}

TEST_P(StoreContractTest, StoreThatWasStuckWorksAgain) {
  rig_->block();
  Answer<ClaimResult> late;
  store().claim(claimRequest(identity("late")), std::chrono::steady_clock::now() + 10ms,
                late.callback());
  EXPECT_FALSE(std::holds_alternative<Claimed>(late.get()));
  Answer<ClaimResult> patient;
  store().claim(claimRequest(identity("patient")), soon(), patient.callback());
  EXPECT_EQ(patient.calls(), 0);
  rig_->unblock();
  EXPECT_TRUE(std::holds_alternative<Claimed>(patient.get()));
}

TEST_P(StoreContractTest, StatusTellsWhatWaitsAndWhatWasDone) {
  mustClaim(identity("first"));
  EXPECT_TRUE(eventually([&] { return store().status().operations >= 1; }));
  EXPECT_GE(store().status().batches, 1U);
  EXPECT_FALSE(store().status().refuses);
  EXPECT_TRUE(eventually([&] { return store().status().queued == 0; }));
  rig_->block();
  Answer<ClaimResult> waits;
  store().claim(claimRequest(identity("second")), soon(), waits.callback());
  EXPECT_TRUE(eventually([&] { return store().status().queued == 1; }));
  rig_->unblock();
  EXPECT_TRUE(std::holds_alternative<Claimed>(waits.get()));
  EXPECT_TRUE(eventually([&] { return store().status().queued == 0; }));
}

// --- Abandoned claims

TEST_P(StoreContractTest, ClaimAbandonedBeforeItsAnswerIsNobodys) {
  const ClaimRequest request = claimRequest(identity("left"));
  Answer<ClaimResult> answer;
  rig_->block();
  store().claim(request, soon(), answer.callback());
  store().abandon({request.identity, request.attempt});
  rig_->unblock();
  EXPECT_FALSE(std::holds_alternative<Claimed>(answer.get()));
  EXPECT_TRUE(eventually([&] { return isAbsent(request.identity); }));
  mustClaim(request.identity);
}

TEST_P(StoreContractTest, AbandonAtAnyMomentLeavesNothingBehind) {
  // The claim is wherever it is when abandon() comes: waiting, under way, or answered.
  for (int round = 0; round < 200; ++round) {
    const ClaimRequest request = claimRequest(identity("any" + std::to_string(round)));
    Answer<ClaimResult> answer;
    store().claim(request, soon(), answer.callback());
    for (int turn = 0; turn < round % 20; ++turn) {
      std::this_thread::yield();
    }
    store().abandon({request.identity, request.attempt});
    answer.get();
    ASSERT_TRUE(eventually([&] { return isAbsent(request.identity); })) << round;
  }
}

TEST_P(StoreContractTest, AbandonOfOneDuplicateLeavesTheOtherAlone) {
  const ClaimRequest first = claimRequest(identity("twin"));
  const ClaimRequest second = claimRequest(identity("twin"));
  Answer<ClaimResult> first_answer;
  Answer<ClaimResult> second_answer;
  rig_->block();
  store().claim(first, soon(), first_answer.callback());
  store().claim(second, soon(), second_answer.callback());
  store().abandon({second.identity, second.attempt});
  rig_->unblock();
  EXPECT_FALSE(std::holds_alternative<Claimed>(second_answer.get()));
  if (!std::holds_alternative<Claimed>(first_answer.get())) {
    return;  // The second came first, and is gone by and by.
  }
  const ClaimRef later = mustClaim(identity("later"));
  store().abandon(later);
  EXPECT_TRUE(eventually([&] { return isAbsent(later.identity); }));
  EXPECT_EQ(mustFind(first.identity).attempt, first.attempt);
}

TEST_P(StoreContractTest, AbandonOfACompletedClaimKeepsTheResponse) {
  const ClaimRef ref = reach(Situation::Completed, identity("done"));
  store().abandon(ref);
  const ClaimRef later = mustClaim(identity("later"));
  store().abandon(later);
  EXPECT_TRUE(eventually([&] { return isAbsent(later.identity); }));
  EXPECT_EQ(mustFind(ref.identity).response, "response");
}

// --- In doubt

TEST_P(StoreContractTest, ClaimInDoubtIsNeverCalledOursAndIsSettledByTheStore) {
  if (!rig_->loseNextAnswer()) {
    GTEST_SKIP() << "this rig cannot lose an answer";
  }
  const ClaimRequest request = claimRequest(identity("doubt"));
  const ClaimResult result = claim(request);
  EXPECT_TRUE(std::holds_alternative<InDoubt>(result)) << "alternative " << result.index();
  EXPECT_TRUE(eventually([&] { return isAbsent(request.identity); }));
  mustClaim(request.identity);
}

TEST_P(StoreContractTest, WriteInDoubtIsSafeToRepeat) {
  const ClaimRef ref = mustClaim(identity("doubt"));
  if (!rig_->loseNextAnswer()) {
    GTEST_SKIP() << "this rig cannot lose an answer";
  }
  EXPECT_EQ(complete(completeRequest(ref, "once")), WriteOutcome::InDoubt);
  EXPECT_EQ(complete(completeRequest(ref, "once")), WriteOutcome::Done);
  EXPECT_EQ(mustFind(ref.identity).response, "once");
}

TEST_P(StoreContractTest, ReleaseInDoubtIsSafeToRepeat) {
  const ClaimRef ref = mustClaim(identity("doubt"));
  if (!rig_->loseNextAnswer()) {
    GTEST_SKIP() << "this rig cannot lose an answer";
  }
  EXPECT_EQ(release(ref), WriteOutcome::InDoubt);
  EXPECT_EQ(release(ref), WriteOutcome::Done);
  EXPECT_TRUE(isAbsent(ref.identity));
}

// --- Stop

TEST_P(StoreContractTest, StopAnswersEverythingThatWaits) {
  const ClaimRef ref = mustClaim(identity("held"));
  rig_->block();
  constexpr size_t Count = 50;
  std::vector<Answer<ClaimResult>> claims(Count);
  std::vector<Answer<WriteResult>> writes(Count);
  std::vector<Answer<LookUpResult>> reads(Count);
  for (size_t i = 0; i < Count; ++i) {
    store().claim(claimRequest(identity(std::to_string(i))), soon(), claims[i].callback());
    store().complete(completeRequest(ref), soon(), writes[i].callback());
    store().lookUp(ref.identity, soon(), reads[i].callback());
  }
  store().abandon(ref);
  rig_->stop();
  for (size_t i = 0; i < Count; ++i) {
    EXPECT_EQ(claims[i].calls(), 1);
    EXPECT_EQ(writes[i].calls(), 1);
    EXPECT_EQ(reads[i].calls(), 1);
    const ClaimResult claimed = claims[i].get();
    EXPECT_TRUE(std::holds_alternative<Unavailable>(claimed) ||
                std::holds_alternative<InDoubt>(claimed));
  }
  rig_->unblock();
}

TEST_P(StoreContractTest, CallbacksThatStillCallWhileTheStoreStopsAreAnswered) {
  rig_->block();
  Answer<ClaimResult> first;
  Answer<WriteResult> second;
  const ClaimRequest request = claimRequest(identity("nested"));
  Store& subject = store();
  subject.claim(request, soon(), [&, report = first.callback()](ClaimResult result) {
    subject.release({request.identity, request.attempt}, soon(), second.callback());
    report(std::move(result));
  });
  rig_->stop();
  EXPECT_EQ(first.calls(), 1);
  EXPECT_EQ(second.calls(), 1);
  rig_->unblock();
}

TEST_P(StoreContractTest, StopWhileManyThreadsCallLosesNoCallback) {
  std::vector<std::vector<Answer<ClaimResult>>> answers(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < answers.size(); ++t) {
    answers[t] = std::vector<Answer<ClaimResult>>(100);
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < answers[t].size(); ++i) {
        store().claim(claimRequest(identity(std::to_string(t) + "/" + std::to_string(i))), soon(),
                      answers[t][i].callback());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  rig_->stop();
  rig_->start();
  for (size_t t = 0; t < answers.size(); ++t) {
    for (size_t i = 0; i < answers[t].size(); ++i) {
      ASSERT_EQ(answers[t][i].calls(), 1);
      if (std::holds_alternative<Claimed>(answers[t][i].get())) {
        EXPECT_EQ(mustFind(identity(std::to_string(t) + "/" + std::to_string(i))).state,
                  RecordState::InProgress)
            << "acknowledged, so it stays";
      }
    }
  }
}

}  // namespace
}  // namespace idempotency::test
