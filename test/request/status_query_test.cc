// What a client learns of its run, on a store in memory and without an Envoy.
#include "source/request/status_query.h"

#include <chrono>
#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "source/message/stored_response.h"
#include "source/store/audit.h"
#include "test/request/fake_claimant_stream.h"
#include "test/support/fake_store.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

const protocol::Identity Who{"acme", "pay", "0123456789abcdef"};
const store::ClaimRef TheRun{Who, 7};
const request::Next ToHold = request::Hold{};

class StatusQueryTest : public ::testing::Test {
protected:
  request::Next start() {
    const request::ClaimServices services{.store = *store_,
                                          .cache = cache_,
                                          .waiters = *waiters_,
                                          .key_rate = key_rate_,
                                          .store_timeout = 60s,
                                          .tenant_live_keys = std::nullopt};
    query_ = std::make_unique<request::StatusQuery>(
        services, stream_, std::make_shared<const protocol::Policy>(policy_), Who);
    return query_->start();
  }
  void deliver() {
    store_->flush();
    stream_.worker.run();
  }
  request::Next outcome() {
    request::Next next = start();
    if (next != ToHold) {
      return next;
    }
    deliver();
    return stream_.next.empty() ? ToHold : stream_.next.back();
  }
  static protocol::Answer answerOf(const request::Next& next) {
    const auto* answer = std::get_if<protocol::Answer>(&next);
    EXPECT_NE(answer, nullptr) << "no answer: " << next.index();
    return answer == nullptr ? protocol::Answer{} : *answer;
  }
  protocol::Problem problem() { return answerOf(outcome()).problem; }

  void claim() {
    store::ClaimRequest request;
    request.identity = Who;
    request.fingerprint = std::string(33, 'f');
    request.attempt = TheRun.attempt;
    store_->database().claim(request);
  }
  void end(const protocol::Ending& ending) {
    claim();
    store_->database().settle(TheRun, ending);
  }
  static protocol::Completed completed(const std::string& bytes) {
    protocol::Completed completed;
    completed.status = 201;
    completed.response_schema = protocol::ResponseSchema;
    completed.response = bytes;
    return completed;
  }

  protocol::Policy policy_;
  std::unique_ptr<FakeStore> store_ = std::make_unique<FakeStore>();
  runtime::ReplayCache cache_{protocol::ReplayCacheSettings()};
  runtime::KeyRate key_rate_{std::nullopt};
  std::shared_ptr<runtime::Waiters> waiters_ = std::make_shared<runtime::Waiters>(
      *store_, [](protocol::Attempt) { return false; },
      [](const protocol::Identity&, const store::Record&, store::Deadline) {});
  FakeClaimantStream stream_;
  std::unique_ptr<request::StatusQuery> query_;
};

TEST_F(StatusQueryTest, RunInProgress) {
  claim();
  const protocol::Answer answer = answerOf(outcome());
  EXPECT_EQ(answer.problem, protocol::Problem::Asynchronous);
  EXPECT_EQ(answer.retry_after, policy_.in_flight.retry_after);
}

TEST_F(StatusQueryTest, CompletedRunIsReplayed) {
  end(completed(message::serializeResponse({201, {{"x-a", "1"}}, "made", {}})));
  EXPECT_EQ(outcome(), request::Next(protocol::Replay{}));
  EXPECT_EQ(query_->completed().response.body, "made");
  EXPECT_TRUE(query_->expiresAt().has_value());
}

TEST_F(StatusQueryTest, ResponseThatCannotBeReadIsToldAndLogged) {
  end(completed("no response"));
  const protocol::Answer answer = answerOf(outcome());
  EXPECT_EQ(answer.problem, protocol::Problem::ResponseUnavailable);
  EXPECT_EQ(answer.original_status, 201);
  EXPECT_EQ(stream_.unreadable.size(), 1U);
}

TEST_F(StatusQueryTest, OtherEndings) {
  EXPECT_EQ(problem(), protocol::Problem::RunNotFound);
  end(protocol::Failed{"status_503"});
  EXPECT_EQ(problem(), protocol::Problem::RunNotCompleted);
}

// Retry-After announces the next question, and a question that is somewhat late. An operator may
// also have asked for one where no reconciler runs: then nothing is going to settle the record.
TEST_F(StatusQueryTest, UnknownOutcomeIsAnnouncedOnlyWhileSomebodyAsks) {
  end(protocol::Unknown{"timeout", 90s});
  EXPECT_EQ(answerOf(outcome()).retry_after, 90s);
  store_->database().passTime(2min);
  EXPECT_EQ(answerOf(outcome()).retry_after, 1s);
  store_->database().passTime(5min);
  EXPECT_EQ(answerOf(outcome()).retry_after, std::nullopt);
}

TEST_F(StatusQueryTest, UnknownOutcome) {
  end(protocol::Unknown{"timeout", std::nullopt});
  const protocol::Answer answer = answerOf(outcome());
  EXPECT_EQ(answer.problem, protocol::Problem::OutcomeUnknown);
  EXPECT_EQ(answer.retry_after, std::nullopt);
}

TEST_F(StatusQueryTest, ChangesNothing) {
  end(protocol::Failed{"status_503"});
  (void)outcome();
  const store::LookUpResult result = store_->database().lookUp(Who);
  const auto* record = std::get_if<store::Record>(&result);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->attempt, TheRun.attempt);
  EXPECT_EQ(record->state, protocol::RecordState::FailedRetryable);
}

TEST_F(StatusQueryTest, WithoutRoomNothingIsAsked) {
  stream_.enter_refusal = runtime::Refusal::InFlight;
  EXPECT_EQ(problem(), protocol::Problem::Overloaded);
  stream_.enter_refusal = runtime::Refusal::TenantInFlight;
  EXPECT_EQ(problem(), protocol::Problem::QuotaExceeded);
}

TEST_F(StatusQueryTest, AnswerIsNotForWhoLeft) {
  EXPECT_EQ(start(), ToHold);
  query_->leave();
  deliver();
  EXPECT_TRUE(stream_.next.empty());
}

}  // namespace
}  // namespace idempotency::test
