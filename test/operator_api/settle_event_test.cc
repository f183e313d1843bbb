#include "source/operator_api/settle_event.h"

#include <string>

#include <gtest/gtest.h>

#include "source/message/stored_response.h"
#include "source/operator_api/record_id.h"
#include "test/support/memory_operator_store.h"

namespace idempotency::operator_api {
namespace {

constexpr char Completed[] = R"("outcome": "completed", "response": {"status": 201, "body": "ok"})";
constexpr char NotRun[] = R"("outcome": "not_run")";

class SettleEventTest : public ::testing::Test {
protected:
  SettleEventTest() {
    store::Record record;
    record.state = protocol::RecordState::Unknown;
    record.attempt = 5;
    memory_.records[identity_] = record;
  }

  ApiAnswer settle(const std::string& members) {
    const auto event = parseWebhookEvent("{" + members + "}");
    EXPECT_TRUE(event.ok()) << event.status();
    const auto answer = settleEvent(*event, "webhook:k", *store_);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(ApiAnswer());
  }

  store::Record& record() { return memory_.records.at(identity_); }

  // Another request has run under the key since.
  void claimAgain(protocol::RecordState state = protocol::RecordState::Completed) {
    record().state = state;
    record().attempt = 6;
    record().last_error.clear();
    record().status = 200;
  }

  const protocol::Identity identity_{"acme", "pay", "key-1"};
  test::OperatorMemory memory_;
  std::unique_ptr<store::OperatorStore> store_ = test::makeMemoryOperatorStore(memory_);
};

TEST_F(SettleEventTest, ARecordIsFoundByItsNamesItsIdAndItsAttempt) {
  for (const std::string& who :
       {std::string(R"("tenant": "acme", "operation": "pay", "key": "key-1",)"),
        R"("record": ")" + recordId(identity_) + R"(",)", std::string(R"("attempt": "5",)")}) {
    record() = {};
    record().attempt = 5;
    const ApiAnswer answer = settle(who + Completed);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(record().state, protocol::RecordState::Completed);
    EXPECT_EQ(record().status, 201);
  }
  EXPECT_EQ(memory_.audit.back().actor, "webhook:k");
  EXPECT_EQ(memory_.audit.back().detail, "webhook");
}

TEST_F(SettleEventTest, TheSameEventAgainGetsTheSameAnswer) {
  for (const char* outcome : {Completed, NotRun}) {
    record() = {};
    record().attempt = 5;
    const std::string event = std::string(R"("attempt": "5",)") + outcome;
    const ApiAnswer first = settle(event);
    const ApiAnswer second = settle(event);
    EXPECT_EQ(first.status, 200);
    EXPECT_EQ(second.status, 200);
    EXPECT_EQ(first.body, second.body);
  }
}

TEST_F(SettleEventTest, AnOldEventDoesNotTouchALaterAttempt) {
  const std::string event = std::string(R"("attempt": "5",)") + NotRun;
  const std::string names = R"("tenant": "acme", "operation": "pay", "key": "key-1",)";
  settle(event);
  for (const auto state : {protocol::RecordState::Completed, protocol::RecordState::Unknown}) {
    claimAgain(state);
    for (const std::string& who : {std::string(), names}) {
      EXPECT_EQ(settle(who + event).status, 200);
      EXPECT_EQ(record().state, state);
      EXPECT_EQ(record().attempt, 6);
    }
  }
}

TEST_F(SettleEventTest, AnEventAboutAnAttemptThatWasNeverSettledSoIsAContradiction) {
  claimAgain();
  const std::string names = R"("tenant": "acme", "operation": "pay", "key": "key-1",)";
  const ApiAnswer answer = settle(names + R"("attempt": "5",)" + NotRun);
  EXPECT_EQ(answer.status, 409);
  EXPECT_NE(answer.body.find("contradiction"), std::string::npos);
  EXPECT_EQ(record().attempt, 6);
}

TEST_F(SettleEventTest, AnotherOutcomeThanTheSettledOneIsAContradiction) {
  const std::string attempt = R"("attempt": "5",)";
  settle(attempt + Completed);
  for (const std::string& other :
       {std::string(NotRun),
        std::string(R"("outcome": "completed", "response": {"status": 200, "body": "ok"})"),
        std::string(R"("outcome": "completed", "response": {"status": 201, "body": "no"})")}) {
    const ApiAnswer answer = settle(attempt + other);
    EXPECT_EQ(answer.status, 409) << other;
    EXPECT_NE(answer.body.find("contradiction"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(message::parseResponse(*record().response)->body, "ok");
}

TEST_F(SettleEventTest, ARunningRequestIsLeftAlone) {
  record().state = protocol::RecordState::InProgress;
  record().lease_alive = true;
  const ApiAnswer answer = settle(std::string(R"("attempt": "5",)") + Completed);
  EXPECT_EQ(answer.status, 409);
  EXPECT_NE(answer.body.find("still running"), std::string::npos);
  EXPECT_EQ(record().state, protocol::RecordState::InProgress);
}

TEST_F(SettleEventTest, AnUnknownRecordIsNotFound) {
  EXPECT_EQ(settle(std::string(R"("attempt": "77",)") + Completed).status, 404);
  EXPECT_EQ(settle(std::string(R"("key": "other",)") + Completed).status, 404);
}

TEST(ParseWebhookEventTest, WhatCouldHitAnotherAttemptIsRefused) {
  const char* const bad[] = {
      R"({"outcome": "not_run", "tenant": "a", "operation": "b", "key": "c"})",
      R"({"outcome": "completed", "response": {"status": 200}})",
      R"({"outcome": "completed", "response": {"status": 200}, "tenant": "a"})",
      R"({"outcome": "completed", "response": {"status": 200}, "record": "AAAAAAAA", "key": "k"})",
      R"({"outcome": "completed", "response": {"status": 200}, "attempt": 5})",
      R"({"outcome": "not_run", "attempt": "5", "dry_run": true})",
  };
  for (const char* body : bad) {
    EXPECT_FALSE(parseWebhookEvent(body).ok()) << body;
  }
}

}  // namespace
}  // namespace idempotency::operator_api
