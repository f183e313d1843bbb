#include "source/operator_api/requests.h"

#include <string>

#include <gtest/gtest.h>

#include "source/message/stored_response.h"
#include "source/operator_api/cursor.h"
#include "test/operator_api/sample_records.h"

namespace idempotency::operator_api {
namespace {

std::string errorOf(const absl::Status& status) {
  return std::string(status.message());
}

store::OperatorChange parsed(ChangeKind kind, std::string_view body) {
  const auto change = parseChange(kind, body);
  EXPECT_TRUE(change.ok()) << change.status() << " in " << body;
  return change.value_or(store::OperatorChange());
}

TEST(ParseChangeTest, CompletedCarriesTheResponseThatRetriesWillGet) {
  const auto change = parsed(ChangeKind::Resolve, R"({
    "attempt": "9223372036854775807", "reason": "case 12", "outcome": "completed",
    "ttl_seconds": 60,
    "response": {"status": 201, "headers": [{"name": "Content-Type", "value": "application/json"}],
                 "body": "{\"payment\": 1}"}})");
  EXPECT_EQ(change.seen.attempt, LargestAttempt);
  EXPECT_EQ(change.reason, "case 12");
  EXPECT_FALSE(change.dry_run);
  const auto& completed = std::get<protocol::Completed>(change.action);
  EXPECT_EQ(completed.status, 201);
  EXPECT_EQ(completed.ttl, std::chrono::seconds(60));
  EXPECT_EQ(completed.tombstone, protocol::Tombstone::None);
  EXPECT_EQ(*message::parseResponse(completed.response),
            (protocol::StoredResponse{
                201, {{"content-type", "application/json"}}, R"({"payment": 1})", {}}));
}

TEST(ParseChangeTest, ABodyMayBeAnyBytes) {
  const auto change = parsed(ChangeKind::Resolve, R"({"attempt": "5", "reason": "r",
    "outcome": "completed", "response": {"status": 200, "body_base64": "AP8="}})");
  const auto& completed = std::get<protocol::Completed>(change.action);
  EXPECT_EQ(message::parseResponse(completed.response)->body, std::string("\0\xff", 2));
}

TEST(ParseChangeTest, AnOutcomeWithoutItsResponseLeavesATombstone) {
  const auto change = parsed(ChangeKind::Resolve, R"({"attempt": "5", "reason": "r",
    "outcome": "completed", "response": {"status": 201, "unavailable": true}})");
  const auto& completed = std::get<protocol::Completed>(change.action);
  EXPECT_EQ(completed.status, 201);
  EXPECT_EQ(completed.tombstone, protocol::Tombstone::Unstorable);
  EXPECT_EQ(completed.response, "");
}

TEST(ParseChangeTest, EveryKindGivesItsAction) {
  constexpr std::string_view Plain = R"({"attempt": "5", "reason": "r", "dry_run": true})";
  EXPECT_TRUE(parsed(ChangeKind::Bust, Plain).dry_run);
  EXPECT_TRUE(std::holds_alternative<store::Bust>(parsed(ChangeKind::Bust, Plain).action));
  EXPECT_TRUE(std::holds_alternative<store::Free>(parsed(ChangeKind::Release, Plain).action));
  const auto again =
      parsed(ChangeKind::AskAgain, R"({"attempt": "5", "reason": "r", "after_seconds": 1.5})");
  EXPECT_EQ(std::get<store::AskAgain>(again.action).after, std::chrono::milliseconds(1500));
  EXPECT_TRUE(std::get<store::AskAgain>(again.action).start_over);
  const auto not_run =
      parsed(ChangeKind::Resolve, R"({"attempt": "5", "reason": "r", "outcome": "not_run"})");
  EXPECT_TRUE(std::holds_alternative<store::NotRun>(not_run.action));
}

struct Mistake {
  ChangeKind kind;
  const char* body;
  const char* error;  // A part of it.
};

TEST(ParseChangeTest, EveryMistakeIsNamed) {
  const Mistake mistakes[] = {
      {ChangeKind::Bust, "", "not valid JSON"},
      {ChangeKind::Bust, "[]", "must be an object"},
      {ChangeKind::Bust, R"({"reason": "r"})", "attempt: is required"},
      {ChangeKind::Bust, R"({"attempt": 5, "reason": "r"})", "attempt: must be a string"},
      {ChangeKind::Bust, R"({"attempt": "0", "reason": "r"})", "attempt: must be an attempt"},
      {ChangeKind::Bust, R"({"attempt": "5"})", "reason: is required"},
      {ChangeKind::Bust, R"({"attempt": "5", "reason": " "})", "reason: must not be empty"},
      {ChangeKind::Bust, R"({"attempt": "5", "reason": "a\u001bb"})", "control characters"},
      // A misspelled dry_run must not change anything.
      {ChangeKind::Bust, R"({"attempt": "5", "reason": "r", "dryrun": true})",
       "dryrun: unknown member"},
      {ChangeKind::Bust, R"({"attempt": "5", "reason": "r", "dry_run": true, "dry_run": false})",
       "dry_run: is there twice"},
      {ChangeKind::Bust, R"({"attempt": "5", "reason": "r", "dry_run": "yes"})",
       "dry_run: must be true or false"},
      {ChangeKind::Bust, R"({"attempt": "5", "reason": "r", "dry_run": null})",
       "dry_run: must not be null"},
      {ChangeKind::Bust, R"({"attempt": "05", "reason": "r"})", "attempt: must be an attempt"},
      {ChangeKind::Bust, R"({"attempt": "5", "reason": "r", "outcome": "not_run"})",
       "outcome: unknown member"},
      {ChangeKind::Resolve, R"({"attempt": "5", "reason": "r"})", "outcome: is required"},
      {ChangeKind::Resolve, R"({"attempt": "5", "reason": "r", "outcome": "ran"})",
       "outcome: must be completed or not_run"},
      {ChangeKind::Resolve, R"({"attempt": "5", "reason": "r", "outcome": "completed"})",
       "response: is required"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "not_run", "response": {"status": 200}})",
       "not_run has neither"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "response": {"status": 100}})",
       "response.status: must be a status from 200 to 599"},
      // 200, if only 32 bits of it counted.
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "response":
          {"status": 4294967496}})",
       "response.status: must be a status from 200 to 599"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "response":
          {"status": 200, "headers": [{"name": "a", "value": "b\r\nc: d"}]}})",
       "response.headers: has a name or a value"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "response":
          {"status": 200, "headers": [{"name": "Set-Cookie", "value": "a=b"}]}})",
       "response.headers: has a header that is never stored"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "response":
          {"status": 200, "headers": {}}})",
       "response.headers: must be a list"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "response":
          {"status": 200, "body": "a", "body_base64": "YQ=="}})",
       "either body or body_base64"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "response":
          {"status": 200, "body": "a", "unavailable": true}})",
       "unavailable: goes with a status only"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "response":
          {"status": 200, "headers": [], "unavailable": true}})",
       "unavailable: goes with a status only"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "response":
          {"status": 200, "body": null}})",
       "response.body: must not be null"},
      {ChangeKind::Resolve,
       R"({"attempt": "5", "reason": "r", "outcome": "completed", "ttl_seconds": 0,
          "response": {"status": 200}})",
       "ttl_seconds: must be 1 to 2592000"},
      {ChangeKind::AskAgain, R"({"attempt": "5", "reason": "r", "after_seconds": -1})",
       "after_seconds: must be a number of seconds"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto change = parseChange(mistake.kind, mistake.body);
    ASSERT_FALSE(change.ok()) << mistake.body;
    EXPECT_NE(errorOf(change.status()).find(mistake.error), std::string::npos)
        << change.status() << " for " << mistake.body;
  }
}

// On a worker: it must not take longer than the body's size demands.
TEST(ParseChangeTest, BodyFullOfUnknownMembersIsRefusedByTheFirst) {
  std::string body = R"({"attempt": "5", "reason": "r")";
  for (int i = 0; i < 1'000'000; ++i) {
    body += R"(,"m)" + std::to_string(i) + R"(":0)";
  }
  const auto change = parseChange(ChangeKind::Bust, body + "}");
  EXPECT_EQ(errorOf(change.status()), "m0: unknown member");
}

TEST(ParseChangeTest, WhatAClientWritesIsWhatTheServerReads) {
  protocol::Completed completed;
  completed.status = 200;
  completed.response_schema = protocol::ResponseSchema;
  completed.ttl = std::chrono::seconds(60);
  completed.response = message::serializeResponse({200, {{"x-a", "b"}}, "\xff", {{"t", "u"}}});
  protocol::Completed tombstone;
  tombstone.status = 500;
  tombstone.tombstone = protocol::Tombstone::Unstorable;
  for (const store::OperatorAction& action :
       {store::OperatorAction(completed), store::OperatorAction(tombstone),
        store::OperatorAction(store::NotRun()), store::OperatorAction(store::Free()),
        store::OperatorAction(store::Bust()),
        store::OperatorAction(store::AskAgain{std::chrono::milliseconds(250), true})}) {
    store::OperatorChange change;
    change.seen.attempt = LargestAttempt;
    change.action = action;
    change.reason = "because \"of\" it";
    change.dry_run = true;
    const auto kind = changeKind(action);
    ASSERT_TRUE(kind.has_value());
    EXPECT_EQ(parseChangeKind(pathSegment(*kind)), kind);
    const std::string body = encodeChangeRequest(change);
    const auto read = parsed(*kind, body);
    EXPECT_EQ(read.seen.attempt, LargestAttempt);
    EXPECT_EQ(read.reason, change.reason);
    EXPECT_TRUE(read.dry_run);
    EXPECT_EQ(read.action.index(), action.index());
    EXPECT_EQ(encodeChangeRequest(read), body);
  }
}

TEST(ParsePurgeTest, TheTenantMayBeAnyBytes) {
  PurgeRequest request;
  request.purge.tenant = "a\xff";
  request.purge.reason = "left us";
  request.purge.dry_run = true;
  request.limit = 7;
  const auto read = parsePurge(encodePurgeRequest(request));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->purge.tenant, "a\xff");
  EXPECT_EQ(read->purge.reason, "left us");
  EXPECT_TRUE(read->purge.dry_run);
  EXPECT_EQ(read->limit, 7);
}

TEST(ParsePurgeTest, AWholeNumberMayBeWrittenWithDecimals) {
  const auto limit = [](const std::string& number) {
    return parsePurge(R"({"tenant": "a", "reason": "r", "limit": )" + number + "}");
  };
  for (const std::string number : {"200", "200.0", "2e2"}) {
    ASSERT_TRUE(limit(number).ok()) << number;
    EXPECT_EQ(limit(number)->limit, 200) << number;
  }
  for (const std::string number : {"200.5", "1e300", "18446744073709551615", "-0.5", "true"}) {
    EXPECT_FALSE(limit(number).ok()) << number;
  }
}

TEST(ParsePurgeTest, ATenantMustBeNamed) {
  EXPECT_EQ(errorOf(parsePurge(R"({"reason": "r"})").status()),
            "tenant: set either tenant or tenant_base64");
  EXPECT_FALSE(parsePurge(R"({"tenant": "a", "tenant_base64": "YQ==", "reason": "r"})").ok());
  // The tenant of an API with a single tenant.
  EXPECT_TRUE(parsePurge(R"({"tenant": "", "reason": "r"})").ok());
  EXPECT_FALSE(parsePurge(R"({"tenant": "a", "reason": "r", "limit": 10001})").ok());
}

TEST(RecordQueryTest, WhatAClientWritesIsWhatTheServerReads) {
  RecordQuery query;
  query.filter.states = {protocol::RecordState::Unknown, protocol::RecordState::InProgress};
  query.filter.tenant = "a&b=c+d %\xff";
  query.filter.operation = "";
  query.filter.key = std::string("\0k", 2);
  query.filter.key_hash = "0123456789abcdef";
  query.filter.attempt = LargestAttempt;
  query.filter.error = "upstream_timeout";
  query.filter.min_age = std::chrono::seconds(60);
  query.filter.dead_letters_only = true;
  query.after = HostileIdentity;
  query.limit = 500;
  const auto read = parseRecordQuery(encodeRecordQuery(query));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->filter.states, query.filter.states);
  EXPECT_EQ(read->filter.tenant, query.filter.tenant);
  EXPECT_EQ(read->filter.operation, query.filter.operation);
  EXPECT_EQ(read->filter.key, query.filter.key);
  EXPECT_EQ(read->filter.key_hash, query.filter.key_hash);
  EXPECT_EQ(read->filter.attempt, query.filter.attempt);
  EXPECT_EQ(read->filter.error, query.filter.error);
  EXPECT_EQ(read->filter.min_age, query.filter.min_age);
  EXPECT_TRUE(read->filter.dead_letters_only);
  EXPECT_EQ(read->after, query.after);
  EXPECT_EQ(read->limit, 500);
}

TEST(RecordQueryTest, NoParametersMeanTheFirstPageOfAllRecords) {
  const auto read = parseRecordQuery("");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->filter.states.empty());
  EXPECT_EQ(read->filter.tenant, std::nullopt);
  EXPECT_EQ(read->after, std::nullopt);
  EXPECT_EQ(read->limit, DefaultPageLimit);
}

TEST(RecordQueryTest, EveryMistakeIsRefused) {
  for (const char* query :
       {"stat=unknown", "state=", "state=lost", "tenant=a&tenant=b", "tenant=%", "tenant=%4",
        "tenant=%zz", "attempt=x", "attempt=0", "limit=0", "limit=501", "error=%ff", "error=a%00",
        "limit=", "min_age_seconds=-1", "min_age_seconds=1.5", "dead_letter=1", "cursor=x"}) {
    EXPECT_FALSE(parseRecordQuery(query).ok()) << query;
  }
}

TEST(AuditQueryTest, WhatAClientWritesIsWhatTheServerReads) {
  AuditQuery query;
  query.filter = {"t", "o", "k", 12};
  query.before = 99;
  query.limit = 3;
  const auto read = parseAuditQuery(encodeAuditQuery(query));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->filter.tenant, "t");
  EXPECT_EQ(read->filter.operation, "o");
  EXPECT_EQ(read->filter.key, "k");
  EXPECT_EQ(read->filter.attempt, 12);
  EXPECT_EQ(read->before, 99);
  EXPECT_EQ(read->limit, 3);
  EXPECT_FALSE(parseAuditQuery("cursor=" + recordCursor(HostileIdentity)).ok());
}

}  // namespace
}  // namespace idempotency::operator_api
