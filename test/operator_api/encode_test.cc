#include "source/operator_api/encode.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "source/operator_api/decode.h"
#include "source/operator_api/problem.h"
#include "source/operator_api/record_id.h"
#include "test/operator_api/sample_records.h"

namespace idempotency::operator_api {
namespace {

using std::chrono::milliseconds;

void expectEqual(const store::Record& got, const store::Record& want) {
  EXPECT_EQ(got.state, want.state);
  EXPECT_EQ(got.attempt, want.attempt);
  EXPECT_EQ(got.fingerprint, want.fingerprint);
  EXPECT_EQ(got.recovery_point, want.recovery_point);
  EXPECT_EQ(got.lease_alive, want.lease_alive);
  EXPECT_EQ(got.lease_left, want.lease_left);
  EXPECT_EQ(got.on_lease_expired, want.on_lease_expired);
  EXPECT_EQ(got.past_life, want.past_life);
  EXPECT_EQ(got.life_left, want.life_left);
  EXPECT_EQ(got.claim_age, want.claim_age);
  EXPECT_EQ(got.created_at, want.created_at);
  EXPECT_EQ(got.expires_at, want.expires_at);
  EXPECT_EQ(got.completed_at, want.completed_at);
  EXPECT_EQ(got.reconcile_after, want.reconcile_after);
  EXPECT_EQ(got.dead_letter, want.dead_letter);
  EXPECT_EQ(got.last_error, want.last_error);
  EXPECT_EQ(got.status, want.status);
  EXPECT_EQ(got.tombstone, want.tombstone);
}

void expectEqual(const store::AuditPage& got, const store::AuditPage& want) {
  EXPECT_EQ(got.more, want.more);
  ASSERT_EQ(got.entries.size(), want.entries.size());
  for (size_t i = 0; i < got.entries.size(); ++i) {
    EXPECT_EQ(got.entries[i].id, want.entries[i].id);
    EXPECT_EQ(got.entries[i].at, want.entries[i].at);
    EXPECT_EQ(got.entries[i].actor, want.entries[i].actor);
    EXPECT_EQ(got.entries[i].action, want.entries[i].action);
    EXPECT_EQ(got.entries[i].identity, want.entries[i].identity);
    EXPECT_EQ(got.entries[i].attempt, want.entries[i].attempt);
    EXPECT_EQ(got.entries[i].records, want.entries[i].records);
    EXPECT_EQ(got.entries[i].detail, want.entries[i].detail);
  }
}

store::ListedRecord runningRecord() {
  store::ListedRecord listed = unknownRecord();
  listed.record.state = protocol::RecordState::InProgress;
  listed.record.lease_alive = true;
  listed.record.lease_left = milliseconds(12'300);
  listed.record.on_lease_expired = protocol::LeaseExpired::Retry;
  listed.record.reconcile_after.reset();
  listed.record.dead_letter = false;
  listed.record.last_error.clear();
  return listed;
}

TEST(EncodeTest, APageOfRecordsComesBackAsItWas) {
  const store::RecordPage page{{unknownRecord(), completedRecord(), runningRecord()}, true};
  const auto decoded = decodeRecords(encodeRecords(page));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->more);
  ASSERT_EQ(decoded->records.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(decoded->records[i].identity, page.records[i].identity);
    expectEqual(decoded->records[i].record, page.records[i].record);
  }
}

TEST(EncodeTest, ARecordIsWrittenInTheWordsOfTheApi) {
  const std::string json = encodeRecords({{unknownRecord()}, false});
  for (const char* part :
       {R"("id":")", R"("tenant":"<script>\"acme\"")", "\"operation\":\"pay\xef\xbf\xbd\"",
        R"("state":"unknown")", R"("attempt":"9223372036854775807")",
        R"("last_error":"upstream_timeout")", R"("age_seconds":61.5,)",
        R"("next_try_seconds":2.5,)", R"("dead_letter":true)", R"("completed_at":null)",
        R"("status":null)", R"("fingerprint":{"version":2,"digest":"00ff"})",
        R"("next_cursor":null)"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  }
}

TEST(EncodeTest, AResponseIsShownOnlyWhereThatIsAllowed) {
  const std::string shown = encodeRecord(completedRecord(), {}, ShowResponse::Yes);
  EXPECT_NE(shown.find(R"("body_base64":"AP8=")"), std::string::npos) << shown;
  EXPECT_NE(shown.find("octet-stream"), std::string::npos);

  const std::string hidden = encodeRecord(completedRecord(), {}, ShowResponse::No);
  EXPECT_EQ(hidden.find("AP8="), std::string::npos) << hidden;
  EXPECT_EQ(hidden.find("octet-stream"), std::string::npos);
  EXPECT_NE(
      hidden.find(R"("response":{"status":201,"readable":true,"shown":false,"body_bytes":2})"),
      std::string::npos)
      << hidden;
}

TEST(EncodeTest, ADamagedResponseIsReportedAndNotShown) {
  store::ListedRecord record = completedRecord();
  record.record.response = "damaged";
  const std::string json = encodeRecord(record, {}, ShowResponse::Yes);
  EXPECT_NE(json.find(R"("response":{"status":201,"readable":false,"shown":false})"),
            std::string::npos)
      << json;
}

TEST(EncodeTest, ARecordWithItsTimelineComesBackAsItWas) {
  const auto detail =
      decodeRecord(encodeRecord(completedRecord(), sampleTimeline(), ShowResponse::Yes));
  ASSERT_TRUE(detail.ok()) << detail.status();
  expectEqual(detail->record.record, completedRecord().record);
  EXPECT_EQ(detail->record.record.response, completedRecord().record.response);
  expectEqual(detail->timeline, sampleTimeline());
}

TEST(EncodeTest, TheAuditComesBackAsItWas) {
  const auto page = decodeAudit(encodeAudit(sampleTimeline()));
  ASSERT_TRUE(page.ok()) << page.status();
  expectEqual(*page, sampleTimeline());
}

TEST(EncodeTest, ASummaryComesBackAsItWas) {
  store::Summary summary;
  summary.unsettled = {{"create-payment", 3, 1, milliseconds(90'000)},
                       {"refund", 1, 0, milliseconds(5)}};
  summary.tenants = {{"acme", 4, milliseconds(90'000)}};
  summary.tenants_complete = false;
  summary.states = {{protocol::RecordState::Unknown, 4}, {protocol::RecordState::Completed, 100}};
  summary.leader = "envoy-1/77/abc";
  summary.schema_version = 9;
  summary.now = store::StoreTime(milliseconds(1'790'000'000'000));
  const std::string json = encodeSummary(summary, {.read_only = true});
  EXPECT_NE(json.find(R"("unknown_records":4,"dead_letters":1,"oldest_unknown_seconds":90,)"),
            std::string::npos)
      << json;

  const auto decoded = decodeSummary(json);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->facts.read_only);
  ASSERT_EQ(decoded->summary.unsettled.size(), 2);
  EXPECT_EQ(decoded->summary.unsettled[0].operation, "create-payment");
  EXPECT_EQ(decoded->summary.unsettled[0].dead_letters, 1);
  EXPECT_EQ(decoded->summary.unsettled[1].oldest, milliseconds(5));
  ASSERT_EQ(decoded->summary.tenants.size(), 1);
  EXPECT_EQ(decoded->summary.tenants[0].tenant, "acme");
  EXPECT_FALSE(decoded->summary.tenants_complete);
  EXPECT_EQ(decoded->summary.states, summary.states);
  EXPECT_TRUE(decoded->summary.states_complete);
  EXPECT_EQ(decoded->summary.leader, summary.leader);
  EXPECT_EQ(decoded->summary.schema_version, 9);
  EXPECT_EQ(decoded->summary.now, summary.now);
}

TEST(EncodeTest, EveryOutcomeOfAChangeComesBack) {
  store::OperatorChange change;
  change.seen = {unknownRecord().identity, LargestAttempt};
  change.action = store::NotRun();
  change.dry_run = true;
  const store::ChangeResult done{store::ChangeOutcome::Done, unknownRecord().record};
  const std::string json = encodeChange(change, done);
  EXPECT_TRUE(json.starts_with(R"({"action":"resolve_not_run","dry_run":true,"before":{)")) << json;
  const auto decoded = decodeChange(200, json);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->outcome, store::ChangeOutcome::Done);
  expectEqual(*decoded->found, *done.found);

  const auto stale = decodeChange(409, encodeProblem(ApiProblem::Stale, {}, unknownRecord()));
  ASSERT_TRUE(stale.ok()) << stale.status();
  EXPECT_EQ(stale->outcome, store::ChangeOutcome::Stale);
  expectEqual(*stale->found, unknownRecord().record);
  EXPECT_EQ(decodeChange(409, encodeProblem(ApiProblem::Refused))->outcome,
            store::ChangeOutcome::Refused);
  EXPECT_EQ(decodeChange(404, encodeProblem(ApiProblem::RecordNotFound))->outcome,
            store::ChangeOutcome::Absent);
  // No outcome of a change, although the status is the same.
  EXPECT_FALSE(decodeChange(404, encodeProblem(ApiProblem::NotFound)).ok());
}

TEST(EncodeTest, APurgeComesBackAsItWas) {
  const auto decoded = decodePurge(encodePurge(
      {}, {.records = 7, .unsettled = 2, .running = 1, .audit_entries = 9, .more = true}));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->records, 7);
  EXPECT_EQ(decoded->unsettled, 2);
  EXPECT_EQ(decoded->running, 1);
  EXPECT_EQ(decoded->audit_entries, 9);
  EXPECT_TRUE(decoded->more);
}

TEST(EncodeTest, AProblemFollowsRfc9457) {
  EXPECT_EQ(encodeProblem(ApiProblem::InvalidRequest, "reason: is required"),
            R"({"type":"about:blank","title":"Invalid request","status":400,)"
            R"("code":"invalid_request","detail":"reason: is required"})");
}

TEST(DecodeTest, AResponseThatIsNotShownIsWithheld) {
  store::ListedRecord damaged = completedRecord();
  damaged.record.response = "damaged";
  const auto hidden = decodeRecord(encodeRecord(completedRecord(), {}, ShowResponse::No));
  const auto unreadable = decodeRecord(encodeRecord(damaged, {}, ShowResponse::Yes));
  for (const auto& detail : {hidden, unreadable}) {
    ASSERT_TRUE(detail.ok()) << detail.status();
    EXPECT_FALSE(detail->record.record.response.has_value());
    EXPECT_TRUE(detail->record.withheld_response.has_value());
  }
  EXPECT_EQ(hidden->record.withheld_response->body_bytes, 2U);
  EXPECT_FALSE(unreadable->record.withheld_response->body_bytes.has_value());
  const auto none = decodeRecord(encodeRecord(unknownRecord(), {}, ShowResponse::Yes));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->record.withheld_response.has_value());
}

TEST(DecodeTest, ACompletedRecordHasOneStatus) {
  const std::string json = encodeRecord(completedRecord(), {}, ShowResponse::Yes);
  constexpr std::string_view Status = R"("status":201)";
  const size_t first = json.find(Status);
  const size_t second = json.find(Status, first + 1);
  ASSERT_NE(second, std::string::npos);
  for (const std::string& other : {std::string(R"("stat":201)"), std::string(R"("status":1000)"),
                                   std::string(R"("status":202)")}) {
    for (const size_t place : {first, second}) {
      std::string changed = json;
      changed.replace(place, Status.size(), other);
      EXPECT_FALSE(decodeRecord(changed).ok()) << changed;
    }
  }
}

TEST(DecodeTest, AProblemMayLackAnything) {
  const auto problem = decodeProblem(encodeProblem(ApiProblem::Stale, "claimed again"));
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->code, "stale");
  EXPECT_EQ(problem->title, "The record has changed");
  EXPECT_EQ(problem->detail, "claimed again");
  EXPECT_TRUE(decodeProblem("{}").ok());
  EXPECT_FALSE(decodeProblem("[]").ok());
  EXPECT_FALSE(decodeProblem(R"({"title":1})").ok());
}

TEST(DecodeTest, WhatIsNoAnswerOfTheApiIsAnError) {
  for (const char* json : {"", "[]", "<html>", R"({"records":1})", R"({"records":[{}]})",
                           R"({"records":[{"id":"AAAAAAAA","state":"lost"}]})"}) {
    EXPECT_FALSE(decodeRecords(json).ok()) << json;
  }
}

}  // namespace
}  // namespace idempotency::operator_api
