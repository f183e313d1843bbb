#include "source/runtime/reconciler.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "gtest/gtest.h"

#include "source/message/stored_response.h"
#include "test/support/scripted_operator_store.h"

namespace idempotency::runtime {
namespace {

using namespace std::chrono_literals;

// Keeps the questions until the test answers them.
class ManualAsker : public Asker {
public:
  struct Open {
    Question question;
    Answered answered;
  };

  void ask(Question question, Answered answered) override {
    const std::lock_guard lock(mutex_);
    open_.push_back({std::move(question), std::move(answered)});
  }
  size_t asked() {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }
  Open get(size_t index) {
    const std::lock_guard lock(mutex_);
    return open_.at(index);
  }

private:
  std::mutex mutex_;
  std::vector<Open> open_;  // Guarded by mutex_.
};

class CountingObserver : public ReconcileObserver {
public:
  void onAsked(bool first) override {
    count([&] { ++asked, first_asked += first ? 1 : 0; });
  }
  void onSettled() override {
    count([&] { ++settled; });
  }
  void onUnanswered(const std::string& cluster, const std::string& why) override {
    count([&] { unanswered.push_back(cluster + ": " + why); });
  }
  void onDeadLetter(const store::ClaimRef& claim, uint32_t tries,
                    const std::string& last_answer) override {
    count([&] {
      dead_letters.push_back(claim.identity.key + " " + std::to_string(tries) + " " + last_answer);
    });
  }
  void onStoreFailed(const std::string& why) override {
    count([&] { store_failures.push_back(why); });
  }
  void onUnsettled(const std::vector<store::UnsettledUse>& unsettled) override {
    count([&] { unsettled_ = unsettled; });
  }

  template <typename Member>
  Member get(Member CountingObserver::*member) {
    const std::lock_guard lock(mutex_);
    return this->*member;
  }
  std::vector<std::string> unsettled() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const store::UnsettledUse& use : unsettled_) {
      names.push_back(use.operation);
    }
    return names;
  }

  int asked = 0;
  int first_asked = 0;
  int settled = 0;
  std::vector<std::string> unanswered;
  std::vector<std::string> dead_letters;
  std::vector<std::string> store_failures;

private:
  template <typename Change>
  void count(Change change) {
    const std::lock_guard lock(mutex_);
    change();
  }

  std::mutex mutex_;
  std::vector<store::UnsettledUse> unsettled_;
};

message::OutcomeAnswer answer(int status, std::string body = {}, protocol::FieldList headers = {}) {
  return {.failure = {}, .status = status, .headers = std::move(headers), .body = std::move(body)};
}

store::DueRecord due(const std::string& key, uint32_t tries = 1,
                     const std::string& operation = "pay") {
  return {.claim = {.identity = {.tenant = "t", .operation = operation, .key = key}, .attempt = 7},
          .tries = tries,
          .claim_age = 1s};
}

class ReconcilerTest : public testing::Test {
protected:
  ReconcilerTest() {
    protocol::ReconcileSettings entry;
    entry.cluster = "ledger";
    entry.authority = "ledger.local";
    entry.path = *protocol::QuestionTemplate::parse("/attempts/{attempt}?key={key}");
    entry.headers = {{"x-tenant", *protocol::QuestionTemplate::parse("{tenant}")}};
    entry.timeout = 60s;
    entry.interval = 10s;
    entry.max_tries = 3;
    options_.entries = {entry};
    options_.look_interval = 1ms;
    options_.count_interval = 1ms;
    options_.store_pause = 1ms;
  }

  Reconciler& start() {
    reconciler_ = std::make_unique<Reconciler>(
        options_,
        [script = script_]() -> absl::StatusOr<std::unique_ptr<store::OperatorStore>> {
          return std::make_unique<test::ScriptedOperatorStore>(script);
        },
        asker_, observer_, [] { return 0.0; });
    return *reconciler_;
  }
  Reconciler& startLeading() {
    start().lead(true);
    return *reconciler_;
  }
  protocol::ReconcileSettings& entry() { return options_.entries.front(); }

  bool wait(const std::function<bool()>& condition) { return script_->wait(condition); }
  bool waitForQuestions(size_t count) {
    return wait([&] { return asker_.asked() >= count; });
  }
  // The one change that follows.
  store::OperatorChange waitForChange() {
    EXPECT_TRUE(wait([&] { return !script_->changes().empty(); }));
    return script_->changes().empty() ? store::OperatorChange() : script_->changes().front();
  }
  // What becomes of a record whose question gets this answer.
  store::OperatorChange answered(const message::OutcomeAnswer& given, uint32_t tries = 1) {
    script_->makeDue(due("key", tries));
    startLeading();
    EXPECT_TRUE(waitForQuestions(1));
    asker_.get(0).answered(given);
    return waitForChange();
  }

  ReconcilerOptions options_;
  std::shared_ptr<test::OperatorScript> script_ = std::make_shared<test::OperatorScript>();
  std::shared_ptr<CountingObserver> observer_ = std::make_shared<CountingObserver>();
  ManualAsker asker_;
  std::unique_ptr<Reconciler> reconciler_;  // Last: it uses all of the above.
};

TEST_F(ReconcilerTest, AsksAboutWhatIsDue) {
  script_->makeDue(due("a key"));
  startLeading();
  ASSERT_TRUE(waitForQuestions(1));
  const Question question = asker_.get(0).question;
  EXPECT_EQ(question.cluster, "ledger");
  EXPECT_EQ(question.method, "GET");
  EXPECT_EQ(question.authority, "ledger.local");
  EXPECT_EQ(question.path, "/attempts/7?key=a%20key");
  EXPECT_EQ(question.headers, (protocol::FieldList{{"x-tenant", "t"}}));
  EXPECT_EQ(question.timeout, 60s);
  EXPECT_GT(script_->taken().front().hold, 60s) << "else another process asks at the same time";
  EXPECT_EQ(observer_->get(&CountingObserver::first_asked), 1);
}

TEST_F(ReconcilerTest, DoesNothingWhileAnotherLeads) {
  script_->makeDue(due("key"));
  Reconciler& reconciler = start();
  reconciler.lead(false);
  std::this_thread::yield();
  reconciler.stop();
  EXPECT_EQ(script_->opened(), 0);
  EXPECT_EQ(asker_.asked(), 0U);
}

TEST_F(ReconcilerTest, AResultCompletesTheAttempt) {
  const store::OperatorChange change = answered(answer(201, "done", {{"x-a", "1"}}));
  EXPECT_EQ(change.seen.attempt, 7);
  EXPECT_EQ(change.seen.identity, (protocol::Identity{"t", "pay", "key"}));
  EXPECT_EQ(change.actor, "reconciler");
  EXPECT_EQ(change.reason, "result (status 201)");
  ASSERT_TRUE(std::holds_alternative<protocol::Completed>(change.action));
  const auto& completed = std::get<protocol::Completed>(change.action);
  const auto response = message::parseResponse(completed.response);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(*response, (protocol::StoredResponse{201, {{"x-a", "1"}}, "done", {}}));
  EXPECT_TRUE(wait([&] { return observer_->get(&CountingObserver::settled) == 1; }));
}

TEST_F(ReconcilerTest, NotRunFreesTheKey) {
  const store::OperatorChange change =
      answered(answer(200, "", {{"idempotency-outcome", "not-run"}}));
  EXPECT_TRUE(std::holds_alternative<store::NotRun>(change.action));
  EXPECT_TRUE(wait([&] { return observer_->get(&CountingObserver::settled) == 1; }));
}

TEST_F(ReconcilerTest, AbsenceIsAskedAboutAgain) {
  const store::OperatorChange change = answered(answer(404), 2);
  ASSERT_TRUE(std::holds_alternative<store::AskAgain>(change.action));
  EXPECT_EQ(std::get<store::AskAgain>(change.action).after, 20s);
  EXPECT_FALSE(std::get<store::AskAgain>(change.action).start_over);
  EXPECT_EQ(change.reason, "absent (status 404)");
  EXPECT_EQ(observer_->get(&CountingObserver::settled), 0);
  EXPECT_TRUE(observer_->get(&CountingObserver::unanswered).empty());
}

TEST_F(ReconcilerTest, AFinalAbsenceFreesTheKey) {
  entry().absent_is_final = true;
  EXPECT_TRUE(std::holds_alternative<store::NotRun>(answered(answer(404)).action));
}

TEST_F(ReconcilerTest, NoAnswerIsAskedForAgainAndCounted) {
  message::OutcomeAnswer none;
  none.failure = "Envoy has no such cluster";
  const store::OperatorChange change = answered(none);
  EXPECT_TRUE(std::holds_alternative<store::AskAgain>(change.action));
  EXPECT_EQ(observer_->get(&CountingObserver::unanswered),
            (std::vector<std::string>{"ledger: no_answer (Envoy has no such cluster)"}));
}

TEST_F(ReconcilerTest, TheLastTryMakesADeadLetter) {
  const store::OperatorChange change = answered(answer(503), 3);
  EXPECT_TRUE(std::holds_alternative<store::GiveUp>(change.action));
  EXPECT_EQ(change.reason, "3 tries, last: other (status 503)");
  EXPECT_TRUE(wait([&] { return !observer_->get(&CountingObserver::dead_letters).empty(); }));
  EXPECT_EQ(observer_->get(&CountingObserver::dead_letters),
            (std::vector<std::string>{"key 3 other (status 503)"}));
}

TEST_F(ReconcilerTest, TheLastTryStillSettles) {
  EXPECT_TRUE(std::holds_alternative<protocol::Completed>(answered(answer(200, "done"), 3).action));
}

TEST_F(ReconcilerTest, WhatAnotherHasSettledIsNotCounted) {
  script_->answerChanges(store::ChangeOutcome::Stale);
  answered(answer(200, "done"));
  reconciler_->stop();
  EXPECT_EQ(observer_->get(&CountingObserver::settled), 0);
}

TEST_F(ReconcilerTest, ADeadLetterThatAnotherHasSettledIsNotLogged) {
  script_->answerChanges(store::ChangeOutcome::Stale);
  answered(answer(503), 3);
  reconciler_->stop();
  EXPECT_TRUE(observer_->get(&CountingObserver::dead_letters).empty());
}

TEST_F(ReconcilerTest, ALostAnswerIsAskedForAgain) {
  entry().timeout = 10ms;
  options_.answer_grace = 10ms;
  script_->makeDue(due("key"));
  startLeading();
  const store::OperatorChange change = waitForChange();
  EXPECT_TRUE(std::holds_alternative<store::AskAgain>(change.action));
  EXPECT_EQ(change.reason, "no_answer (no answer in time)");
  // It comes after all, and changes nothing: another process may have the record by now.
  asker_.get(0).answered(answer(200, "late"));
  script_->makeDue(due("next"));
  ASSERT_TRUE(waitForQuestions(2));
  EXPECT_TRUE(wait([&] { return script_->changes().size() == 2; }));
  EXPECT_EQ(script_->changes()[1].seen.identity.key, "next");
}

TEST_F(ReconcilerTest, QuestionsAtTheSameTimeAreLimited) {
  entry().max_parallel = 2;
  for (const char* key : {"a", "b", "c", "d"}) {
    script_->makeDue(due(key));
  }
  startLeading();
  ASSERT_TRUE(waitForQuestions(2));
  EXPECT_EQ(script_->taken().front().limit, 2U);
  const size_t counted = script_->taken().size();
  asker_.get(0).answered(answer(409));
  ASSERT_TRUE(waitForQuestions(3));
  EXPECT_EQ(script_->taken().at(counted).limit, 1U);
  asker_.get(1).answered(answer(409));
  ASSERT_TRUE(waitForQuestions(4));
  EXPECT_EQ(asker_.get(3).question.path, "/attempts/7?key=d");
}

TEST_F(ReconcilerTest, EachOperationIsAskedAboutByItsEntry) {
  protocol::ReconcileSettings other = entry();
  entry().operations = {"pay", "refund"};
  other.cluster = "rest";
  options_.entries.push_back(other);
  script_->makeDue(due("a", 1, "refund"));
  script_->makeDue(due("b", 1, "ship"));
  startLeading();
  ASSERT_TRUE(waitForQuestions(2));
  EXPECT_EQ(asker_.get(0).question.cluster, "ledger");
  EXPECT_EQ(asker_.get(0).question.path, "/attempts/7?key=a");
  EXPECT_EQ(asker_.get(1).question.cluster, "rest");
  EXPECT_EQ(asker_.get(1).question.path, "/attempts/7?key=b");
}

TEST_F(ReconcilerTest, ASlowClusterDoesNotDelayOthers) {
  protocol::ReconcileSettings other = entry();
  entry().operations = {"pay"};
  entry().max_parallel = 1;
  other.cluster = "rest";
  options_.entries.push_back(other);
  script_->makeDue(due("a"));
  script_->makeDue(due("b"));
  startLeading();
  ASSERT_TRUE(waitForQuestions(1));
  script_->makeDue(due("c", 1, "ship"));
  ASSERT_TRUE(waitForQuestions(2));
  EXPECT_EQ(asker_.get(1).question.cluster, "rest");
}

TEST_F(ReconcilerTest, APathThatWouldLeaveItsFolderIsNotAsked) {
  entry().path = *protocol::QuestionTemplate::parse("/{tenant}/{attempt}");
  store::DueRecord record = due("key");
  record.claim.identity.tenant = "..";
  script_->makeDue(record);
  startLeading();
  EXPECT_TRUE(std::holds_alternative<store::GiveUp>(waitForChange().action));
  EXPECT_EQ(asker_.asked(), 0U);
}

TEST_F(ReconcilerTest, AFailedStoreIsOpenedAgain) {
  script_->failCalls(2);
  script_->makeDue(due("key"));
  startLeading();
  ASSERT_TRUE(waitForQuestions(1));
  EXPECT_EQ(script_->opened(), 3);
  EXPECT_EQ(script_->living(), 1);
  EXPECT_EQ(observer_->get(&CountingObserver::store_failures),
            (std::vector<std::string>{"the store is broken", "the store is broken"}));
}

TEST_F(ReconcilerTest, WhatTheStoreDidNotWriteIsNotCounted) {
  options_.count_interval = 1h;
  script_->makeDue(due("key"));
  startLeading();
  ASSERT_TRUE(waitForQuestions(1));
  script_->failCalls(1000);
  asker_.get(0).answered(answer(200, "done"));
  ASSERT_TRUE(wait([&] { return !observer_->get(&CountingObserver::store_failures).empty(); }));
  reconciler_->stop();
  EXPECT_EQ(observer_->get(&CountingObserver::settled), 0);
}

TEST_F(ReconcilerTest, TheLeaderCountsAndOthersShowNothing) {
  script_->setUnsettled({{.operation = "pay", .records = 2, .dead_letters = 1, .oldest = 5s}});
  Reconciler& reconciler = startLeading();
  ASSERT_TRUE(wait([&] { return observer_->unsettled() == std::vector<std::string>{"pay"}; }));
  reconciler.lead(false);
  ASSERT_TRUE(wait([&] { return observer_->unsettled().empty(); }));
}

// --- A leader that goes -------------------------------------------------------------------------

TEST_F(ReconcilerTest, ALeaderThatIsReplacedClosesItsStoreAndWritesNothing) {
  script_->makeDue(due("key"));
  Reconciler& reconciler = startLeading();
  ASSERT_TRUE(waitForQuestions(1));
  reconciler.lead(false);
  ASSERT_TRUE(wait([&] { return script_->living() == 0; }));
  asker_.get(0).answered(answer(200, "done"));
  // It leads again, and the old answer is still worth nothing.
  reconciler.lead(true);
  script_->makeDue(due("next"));
  ASSERT_TRUE(waitForQuestions(2));
  asker_.get(1).answered(answer(409));
  EXPECT_EQ(waitForChange().seen.identity.key, "next");
  EXPECT_EQ(script_->changes().size(), 1U);
}

TEST_F(ReconcilerTest, StopsBeforeItLeads) {
  start();
  reconciler_.reset();
  EXPECT_EQ(script_->opened(), 0);
}

TEST_F(ReconcilerTest, StopsWhileItAsks) {
  script_->makeDue(due("key"));
  startLeading();
  ASSERT_TRUE(waitForQuestions(1));
  reconciler_.reset();
  EXPECT_EQ(script_->living(), 0);
  asker_.get(0).answered(answer(200, "done"));  // Its inbox is still there.
  EXPECT_TRUE(script_->changes().empty());
}

TEST_F(ReconcilerTest, StopsWhenTheStoreHasAnswered) {
  script_->close();
  script_->makeDue(due("key"));
  startLeading();
  ASSERT_TRUE(wait([&] { return script_->waiting() == 1; }));
  std::thread stopper([&] { reconciler_->stop(); });
  script_->open();
  stopper.join();
  EXPECT_EQ(script_->living(), 0);
  EXPECT_TRUE(script_->changes().empty());
}

TEST_F(ReconcilerTest, StopsWhileTheStoreCannotBeOpened) {
  options_.store_pause = 1h;
  script_->failCalls(1000);
  startLeading();
  ASSERT_TRUE(wait([&] { return !observer_->get(&CountingObserver::store_failures).empty(); }));
  reconciler_.reset();
  EXPECT_EQ(script_->living(), 0);
}

}  // namespace
}  // namespace idempotency::runtime
