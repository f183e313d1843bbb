// How a store calls back: once, on its own thread, in time, also when it stops; and what becomes of
// claims that nobody waits for any more.
#include <functional>
#include <set>
#include <vector>

#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

store::Deadline past() {
  return std::chrono::steady_clock::now() - 1ms;
}

// A write in doubt may still be under way at the server, and lock the record: the next one then
// changes nothing, and is repeated, as the settler does.
bool becomesDone(const std::function<store::WriteOutcome()>& write) {
  store::WriteOutcome outcome = store::WriteOutcome::Locked;
  return eventually([&] {
           outcome = write();
           return outcome != store::WriteOutcome::Locked;
         }) &&
         outcome == store::WriteOutcome::Done;
}

TEST_P(StoreContractTest, CallbacksRunOnceAndAllOnTheStoresThread) {
  const store::ClaimRequest request = claimRequest(identity("thread"));
  const store::ClaimRef ref{request.identity, request.attempt};
  Answer<store::ClaimResult> claimed;
  Answer<store::LookUpResult> found;
  Answer<store::ExtendResult> extended;
  Answer<store::WriteResult> completed;
  Answer<store::WriteResult> failed;
  Answer<store::WriteResult> released;
  Answer<store::WriteResult> unknown;
  Answer<store::ClaimResult> refused;
  store().claim(request, soon(), claimed.callback());
  claimed.get();
  store().lookUp(ref.identity, soon(), found.callback());
  store().extend({ref}, 1h, soon(), extended.callback());
  store().settle(ref, completion(), soon(), completed.callback());
  store().settle(ref, protocol::Failed{"code"}, soon(), failed.callback());
  store().settle(ref, protocol::Released{}, soon(), released.callback());
  store().settle(ref, protocol::Unknown{"code", {}}, soon(), unknown.callback());
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

TEST_P(StoreContractTest, ManyLookUpsTellOfEachWhatOneDoes) {
  const store::ClaimRef running = mustClaim(identity("running"));
  const store::ClaimRef done = mustClaim(identity("done"));
  ASSERT_EQ(complete(done, completion()), store::WriteOutcome::Done);
  constexpr size_t Count = 50;
  std::vector<protocol::Identity> identities(Count, identity("absent"));
  identities[0] = running.identity;
  identities[7] = done.identity;
  identities[Count - 1] = done.identity;
  std::vector<Answer<store::LookUpResult>> answers(Count);
  std::vector<std::function<void(store::LookUpResult)>> callbacks;
  for (Answer<store::LookUpResult>& answer : answers) {
    callbacks.push_back(answer.callback());
  }
  store().lookUpMany(identities, soon(), [callbacks](size_t place, store::LookUpResult result) {
    callbacks.at(place)(std::move(result));
  });
  for (size_t i = 0; i < Count; ++i) {
    const store::LookUpResult result = answers[i].get();
    const auto* found = std::get_if<store::Record>(&result);
    EXPECT_TRUE(
        sameRecord(lookUp(identities[i]), found == nullptr ? std::nullopt : std::optional(*found)))
        << i;
    EXPECT_FALSE(std::holds_alternative<store::Unavailable>(result)) << i;
  }
  Answer<store::LookUpResult> late;
  store().lookUpMany({running.identity}, past(),
                     [callback = late.callback()](size_t, store::LookUpResult result) {
                       callback(std::move(result));
                     });
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(late.get()));
  store().lookUpMany({}, soon(), [](size_t, const store::LookUpResult&) { FAIL(); });
  rig_->stop();
  for (const Answer<store::LookUpResult>& answer : answers) {
    EXPECT_EQ(answer.calls(), 1);
  }
}

TEST_P(StoreContractTest, CallFromACallbackIsAnsweredLater) {
  const store::ClaimRequest request = claimRequest(identity("nested"));
  Answer<store::LookUpResult> nested;
  Answer<bool> outer;
  store().claim(request, soon(), [&, report = outer.callback()](const store::ClaimResult&) {
    store().lookUp(request.identity, soon(), nested.callback());
    store().lookUp(request.identity, past(), [](const store::LookUpResult&) {});
    report(nested.calls() == 0);
  });
  EXPECT_TRUE(outer.get());
  EXPECT_TRUE(std::holds_alternative<store::Record>(nested.get()));
}

TEST_P(StoreContractTest, CallbackIsDestroyedAfterItRan) {
  auto owned = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = owned;
  Answer<store::LookUpResult> answer;
  store().lookUp(identity("x"), soon(),
                 [owned = std::move(owned), report = answer.callback()](
                     store::LookUpResult result) { report(std::move(result)); });
  answer.get();
  EXPECT_TRUE(eventually([&] { return watch.expired(); }));
}

// --- Deadlines

TEST_P(StoreContractTest, DeadlineThatIsOverChangesNothing) {
  const store::ClaimRef ref = mustClaim(identity("old"));
  const std::optional<store::Record> before = lookUp(ref.identity);
  Answer<store::ClaimResult> claimed;
  Answer<store::WriteResult> completed;
  Answer<store::WriteResult> failed;
  Answer<store::WriteResult> released;
  Answer<store::WriteResult> unknown;
  Answer<store::ExtendResult> extended;
  Answer<store::LookUpResult> found;
  store().claim(claimRequest(identity("new")), past(), claimed.callback());
  store().settle(ref, completion(), past(), completed.callback());
  store().settle(ref, protocol::Failed{"code"}, past(), failed.callback());
  store().settle(ref, protocol::Released{}, past(), released.callback());
  store().settle(ref, protocol::Unknown{"code", {}}, past(), unknown.callback());
  store().extend({ref, ref}, 7h, past(), extended.callback());
  store().lookUp(ref.identity, past(), found.callback());
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(claimed.get()));
  EXPECT_EQ(completed.get().outcome, store::WriteOutcome::Unavailable);
  EXPECT_NE(completed.get().reason, "");
  EXPECT_EQ(failed.get().outcome, store::WriteOutcome::Unavailable);
  EXPECT_EQ(released.get().outcome, store::WriteOutcome::Unavailable);
  EXPECT_EQ(unknown.get().outcome, store::WriteOutcome::Unavailable);
  ASSERT_EQ(extended.get().size(), 2U);
  EXPECT_EQ(extended.get()[1].outcome, store::WriteOutcome::Unavailable);
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(found.get()));
  EXPECT_TRUE(isAbsent(identity("new")));
  EXPECT_TRUE(sameRecord(before, lookUp(ref.identity)));
}

TEST_P(StoreContractTest, DeadlineIsKeptWhileTheStoreIsStuck) {
  const store::ClaimRef ref = mustClaim(identity("held"));
  rig_->block();
  const auto start = std::chrono::steady_clock::now();
  const store::Deadline deadline = start + 100ms;
  Answer<store::ClaimResult> claimed;
  Answer<store::WriteResult> completed;
  store().claim(claimRequest(identity("new")), deadline, claimed.callback());
  store().settle(ref, completion(), deadline, completed.callback());
  const store::ClaimResult claim_result = claimed.get();
  const store::WriteResult write_result = completed.get();
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, 100ms);
  EXPECT_LT(waited, 5s);
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(claim_result) ||
              std::holds_alternative<store::InDoubt>(claim_result))
      << "alternative " << claim_result.index();
  EXPECT_TRUE(write_result.outcome == store::WriteOutcome::Unavailable ||
              write_result.outcome == store::WriteOutcome::InDoubt);
  rig_->unblock();
  EXPECT_TRUE(eventually([&] { return isAbsent(identity("new")); }));
  if (write_result.outcome == store::WriteOutcome::Unavailable) {
    EXPECT_EQ(mustFind(ref.identity).state, protocol::RecordState::InProgress);
  }
  EXPECT_TRUE(becomesDone([&] { return complete(ref, completion()); })) << "safe to repeat";
  rig_->stop();
  EXPECT_EQ(claimed.calls(), 1);
  EXPECT_EQ(completed.calls(), 1);
}

TEST_P(StoreContractTest, StoreThatWasStuckWorksAgain) {
  rig_->block();
  Answer<store::ClaimResult> late;
  store().claim(claimRequest(identity("late")), std::chrono::steady_clock::now() + 10ms,
                late.callback());
  EXPECT_FALSE(std::holds_alternative<store::Claimed>(late.get()));
  Answer<store::ClaimResult> patient;
  store().claim(claimRequest(identity("patient")), soon(), patient.callback());
  EXPECT_EQ(patient.calls(), 0);
  rig_->unblock();
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(patient.get()));
}

TEST_P(StoreContractTest, StatusShowsWhatWaitsAndWhatWasDone) {
  mustClaim(identity("first"));
  EXPECT_TRUE(eventually([&] { return store().status().operations >= 1; }));
  EXPECT_TRUE(eventually([&] { return store().status().batches >= 1; }));
  EXPECT_FALSE(store().status().refuses);
  EXPECT_TRUE(eventually([&] { return store().status().queued == 0; }));
  rig_->block();
  Answer<store::ClaimResult> waits;
  store().claim(claimRequest(identity("second")), soon(), waits.callback());
  EXPECT_TRUE(eventually([&] { return store().status().queued == 1; }));
  rig_->unblock();
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(waits.get()));
  EXPECT_TRUE(eventually([&] { return store().status().queued == 0; }));
}

// --- Abandoned claims

TEST_P(StoreContractTest, ClaimAbandonedBeforeItsAnswerIsNobodys) {
  const store::ClaimRequest request = claimRequest(identity("left"));
  Answer<store::ClaimResult> answer;
  rig_->block();
  store().claim(request, soon(), answer.callback());
  store().abandon({request.identity, request.attempt});
  rig_->unblock();
  EXPECT_FALSE(std::holds_alternative<store::Claimed>(answer.get()));
  EXPECT_TRUE(eventually([&] { return isAbsent(request.identity); }));
  mustClaim(request.identity);
}

TEST_P(StoreContractTest, AbandonAtAnyMomentLeavesNothingBehind) {
  // The claim is wherever it is when abandon() comes: waiting, under way, or answered.
  for (int round = 0; round < 200; ++round) {
    const store::ClaimRequest request = claimRequest(identity("any" + std::to_string(round)));
    Answer<store::ClaimResult> answer;
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
  const store::ClaimRequest first = claimRequest(identity("twin"));
  const store::ClaimRequest second = claimRequest(identity("twin"));
  Answer<store::ClaimResult> first_answer;
  Answer<store::ClaimResult> second_answer;
  rig_->block();
  store().claim(first, soon(), first_answer.callback());
  store().claim(second, soon(), second_answer.callback());
  store().abandon({second.identity, second.attempt});
  rig_->unblock();
  EXPECT_FALSE(std::holds_alternative<store::Claimed>(second_answer.get()));
  if (!std::holds_alternative<store::Claimed>(first_answer.get())) {
    return;  // The second came first, and is gone by and by.
  }
  const store::ClaimRef later = mustClaim(identity("later"));
  store().abandon(later);
  EXPECT_TRUE(eventually([&] { return isAbsent(later.identity); }));
  EXPECT_EQ(mustFind(first.identity).attempt, first.attempt);
}

TEST_P(StoreContractTest, AbandonOfACompletedClaimKeepsTheResponse) {
  const store::ClaimRef ref = reach(Situation::Completed, identity("done"));
  store().abandon(ref);
  const store::ClaimRef later = mustClaim(identity("later"));
  store().abandon(later);
  EXPECT_TRUE(eventually([&] { return isAbsent(later.identity); }));
  EXPECT_EQ(mustFind(ref.identity).response, "response");
}

// --- In doubt

TEST_P(StoreContractTest, ClaimInDoubtIsNeverCalledOursAndIsSettledByTheStore) {
  if (!rig_->loseNextAnswer()) {
    GTEST_SKIP() << "this rig cannot lose an answer";
  }
  const store::ClaimRequest request = claimRequest(identity("doubt"));
  const store::ClaimResult result = claim(request);
  EXPECT_TRUE(std::holds_alternative<store::InDoubt>(result)) << "alternative " << result.index();
  EXPECT_TRUE(eventually([&] { return isAbsent(request.identity); }));
  mustClaim(request.identity);
}

TEST_P(StoreContractTest, WriteInDoubtIsSafeToRepeat) {
  const store::ClaimRef ref = mustClaim(identity("doubt"));
  if (!rig_->loseNextAnswer()) {
    GTEST_SKIP() << "this rig cannot lose an answer";
  }
  EXPECT_EQ(complete(ref, completion("once")), store::WriteOutcome::InDoubt);
  EXPECT_TRUE(becomesDone([&] { return complete(ref, completion("once")); }));
  EXPECT_EQ(mustFind(ref.identity).response, "once");
}

TEST_P(StoreContractTest, ReleaseInDoubtIsSafeToRepeat) {
  const store::ClaimRef ref = mustClaim(identity("doubt"));
  if (!rig_->loseNextAnswer()) {
    GTEST_SKIP() << "this rig cannot lose an answer";
  }
  EXPECT_EQ(release(ref), store::WriteOutcome::InDoubt);
  EXPECT_TRUE(becomesDone([&] { return release(ref); }));
  EXPECT_TRUE(isAbsent(ref.identity));
}

// --- Stop

TEST_P(StoreContractTest, StopAnswersEverythingThatWaits) {
  const store::ClaimRef ref = mustClaim(identity("held"));
  rig_->block();
  constexpr size_t Count = 50;
  std::vector<Answer<store::ClaimResult>> claims(Count);
  std::vector<Answer<store::WriteResult>> writes(Count);
  std::vector<Answer<store::LookUpResult>> reads(Count);
  for (size_t i = 0; i < Count; ++i) {
    store().claim(claimRequest(identity(std::to_string(i))), soon(), claims[i].callback());
    store().settle(ref, completion(), soon(), writes[i].callback());
    store().lookUp(ref.identity, soon(), reads[i].callback());
  }
  store().abandon(ref);
  rig_->stop();
  for (size_t i = 0; i < Count; ++i) {
    EXPECT_EQ(claims[i].calls(), 1);
    EXPECT_EQ(writes[i].calls(), 1);
    EXPECT_EQ(reads[i].calls(), 1);
    const store::ClaimResult claimed = claims[i].get();
    EXPECT_TRUE(std::holds_alternative<store::Unavailable>(claimed) ||
                std::holds_alternative<store::InDoubt>(claimed));
  }
  rig_->unblock();
}

TEST_P(StoreContractTest, CallbacksThatStillCallWhileTheStoreStopsAreAnswered) {
  rig_->block();
  Answer<store::ClaimResult> first;
  Answer<store::WriteResult> second;
  const store::ClaimRequest request = claimRequest(identity("nested"));
  store::Store& subject = store();
  subject.claim(request, soon(), [&, report = first.callback()](store::ClaimResult result) {
    subject.settle({request.identity, request.attempt}, protocol::Released{}, soon(),
                   second.callback());
    report(std::move(result));
  });
  rig_->stop();
  EXPECT_EQ(first.calls(), 1);
  EXPECT_EQ(second.calls(), 1);
  rig_->unblock();
}

TEST_P(StoreContractTest, StopWhileManyThreadsCallLosesNoCallback) {
  std::vector<std::vector<Answer<store::ClaimResult>>> answers(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < answers.size(); ++t) {
    answers[t] = std::vector<Answer<store::ClaimResult>>(100);
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
      if (std::holds_alternative<store::Claimed>(answers[t][i].get())) {
        EXPECT_EQ(mustFind(identity(std::to_string(t) + "/" + std::to_string(i))).state,
                  protocol::RecordState::InProgress)
            << "acknowledged, so it stays";
      }
    }
  }
}

}  // namespace
}  // namespace idempotency::test
