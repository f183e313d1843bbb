#include "source/message/answer.h"

#include <chrono>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::message {
namespace {

using testing::ElementsAre;
using testing::Pair;
using namespace std::chrono_literals;

// Clients depend on these bytes.
struct Row {
  protocol::Problem problem;
  int status;
  int grpc_status;
  const char* ietf;
  const char* stripe;
};

constexpr Row Rows[] = {
    {protocol::Problem::StoreUnavailable, 503, 14,
     R"({"type":"https://d.example/i#idempotency_store_unavailable",)"
     R"("title":"Idempotency store is unavailable",)"
     R"("status":503,)"
     R"("detail":"The idempotency store is unavailable. )"
     R"(This request was not forwarded. )"
     R"(An earlier request with this key may have been processed. )"
     R"(Retry later with the same key.",)"
     R"("code":"idempotency_store_unavailable"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_store_unavailable",)"
     R"("message":"The idempotency store is unavailable. )"
     R"(This request was not forwarded. )"
     R"(An earlier request with this key may have been processed. )"
     R"(Retry later with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_store_unavailable"}})"},
    {protocol::Problem::KeyMissing, 400, 3,
     R"({"type":"https://d.example/i#idempotency_key_missing",)"
     R"("title":"Idempotency-Key is missing",)"
     R"("status":400,)"
     R"("detail":"This operation requires an Idempotency-Key header. )"
     R"(Use a new key for each new request, and the same key for retries.",)"
     R"("code":"idempotency_key_missing"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_key_missing",)"
     R"("message":"This operation requires an Idempotency-Key header. )"
     R"(Use a new key for each new request, and the same key for retries.",)"
     R"("doc_url":"https://d.example/i#idempotency_key_missing"}})"},
    {protocol::Problem::KeyInvalid, 400, 3,
     R"({"type":"https://d.example/i#idempotency_key_invalid",)"
     R"("title":"Idempotency-Key is invalid",)"
     R"("status":400,)"
     R"("detail":"The Idempotency-Key header is not in the format that this operation requires. )"
     R"(The key has 5 characters; this operation requires 16 to 255.",)"
     R"("code":"idempotency_key_invalid"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_key_invalid",)"
     R"("message":"The Idempotency-Key header is not in the format that this operation requires. )"
     R"(The key has 5 characters; this operation requires 16 to 255.",)"
     R"("doc_url":"https://d.example/i#idempotency_key_invalid"}})"},
    {protocol::Problem::TenantMissing, 403, 7,
     R"({"type":"https://d.example/i#idempotency_tenant_missing",)"
     R"("title":"Tenant could not be determined",)"
     R"("status":403,)"
     R"("detail":"The request's tenant could not be determined.",)"
     R"("code":"idempotency_tenant_missing"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_tenant_missing",)"
     R"("message":"The request's tenant could not be determined.",)"
     R"("doc_url":"https://d.example/i#idempotency_tenant_missing"}})"},
    {protocol::Problem::KeyReused, 422, 6,
     R"({"type":"https://d.example/i#idempotency_key_reused",)"
     R"("title":"Idempotency-Key is already used",)"
     R"("status":422,)"
     R"("detail":"This Idempotency-Key was already used with a different request. )"
     R"(Use a new key for a new request.",)"
     R"("code":"idempotency_key_reused"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_reused",)"
     R"("message":"This Idempotency-Key was already used with a different request. )"
     R"(Use a new key for a new request.",)"
     R"("doc_url":"https://d.example/i#idempotency_key_reused"}})"},
    {protocol::Problem::InProgress, 409, 10,
     R"({"type":"https://d.example/i#idempotency_in_progress",)"
     R"("title":"A request is outstanding for this Idempotency-Key",)"
     R"("status":409,)"
     R"("detail":"An earlier request with this Idempotency-Key is still being processed. )"
     R"(Retry later with the same key to get its result.",)"
     R"("code":"idempotency_in_progress"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_in_use",)"
     R"("message":"An earlier request with this Idempotency-Key is still being processed. )"
     R"(Retry later with the same key to get its result.",)"
     R"("doc_url":"https://d.example/i#idempotency_in_progress"}})"},
    {protocol::Problem::Accepted, 202, 10,
     R"({"type":"https://d.example/i#idempotency_in_progress",)"
     R"("title":"A request is outstanding for this Idempotency-Key",)"
     R"("status":202,)"
     R"("detail":"An earlier request with this Idempotency-Key is still being processed. )"
     R"(Retry later with the same key to get its result.",)"
     R"("code":"idempotency_in_progress"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_in_use",)"
     R"("message":"An earlier request with this Idempotency-Key is still being processed. )"
     R"(Retry later with the same key to get its result.",)"
     R"("doc_url":"https://d.example/i#idempotency_in_progress"}})"},
    {protocol::Problem::OutcomeUnknown, 409, 9,
     R"({"type":"https://d.example/i#idempotency_outcome_unknown",)"
     R"("title":"Outcome of an earlier request is unknown",)"
     R"("status":409,)"
     R"("detail":"An earlier request with this Idempotency-Key may have been processed, but its result is unknown. )"
     R"(This request was not forwarded. )"
     R"(No request with this key will be forwarded until the result is known. )"
     R"(Find out whether the earlier request was processed before you repeat the operation.",)"
     R"("code":"idempotency_outcome_unknown"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_outcome_unknown",)"
     R"("message":"An earlier request with this Idempotency-Key may have been processed, but its result is unknown. )"
     R"(This request was not forwarded. )"
     R"(No request with this key will be forwarded until the result is known. )"
     R"(Find out whether the earlier request was processed before you repeat the operation.",)"
     R"("doc_url":"https://d.example/i#idempotency_outcome_unknown"}})"},
    {protocol::Problem::ResponseUnavailable, 409, 6,
     R"({"type":"https://d.example/i#idempotency_response_unavailable",)"
     R"("title":"Response to the earlier request is not available",)"
     R"("status":409,)"
     R"("detail":"A request with this Idempotency-Key was processed, but its response was not stored. )"
     R"(This request was not forwarded. )"
     R"(The status of that response was 201.",)"
     R"("code":"idempotency_response_unavailable",)"
     R"("original_status":201})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_response_unavailable",)"
     R"("message":"A request with this Idempotency-Key was processed, but its response was not stored. )"
     R"(This request was not forwarded. )"
     R"(The status of that response was 201.",)"
     R"("doc_url":"https://d.example/i#idempotency_response_unavailable"}})"},
    {protocol::Problem::KeyExpired, 410, 9,
     R"({"type":"https://d.example/i#idempotency_key_expired",)"
     R"("title":"Idempotency-Key has expired",)"
     R"("status":410,)"
     R"("detail":"This Idempotency-Key was used before, and its record has expired. )"
     R"(An earlier request with this key may have been processed. )"
     R"(This request was not forwarded. )"
     R"(Use a new key only for a new request.",)"
     R"("code":"idempotency_key_expired"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_expired",)"
     R"("message":"This Idempotency-Key was used before, and its record has expired. )"
     R"(An earlier request with this key may have been processed. )"
     R"(This request was not forwarded. )"
     R"(Use a new key only for a new request.",)"
     R"("doc_url":"https://d.example/i#idempotency_key_expired"}})"},
    {protocol::Problem::UnknownExpired, 410, 9,
     R"({"type":"https://d.example/i#idempotency_key_expired",)"
     R"("title":"Idempotency-Key has expired",)"
     R"("status":410,)"
     R"("detail":"An earlier request with this Idempotency-Key may have been processed, but its result is unknown, and the key has expired. )"
     R"(This request was not forwarded. )"
     R"(Find out whether the earlier request was processed before you repeat the operation.",)"
     R"("code":"idempotency_key_expired"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_expired",)"
     R"("message":"An earlier request with this Idempotency-Key may have been processed, but its result is unknown, and the key has expired. )"
     R"(This request was not forwarded. )"
     R"(Find out whether the earlier request was processed before you repeat the operation.",)"
     R"("doc_url":"https://d.example/i#idempotency_key_expired"}})"},
    {protocol::Problem::QuotaExceeded, 429, 8,
     R"({"type":"https://d.example/i#idempotency_quota_exceeded",)"
     R"("title":"Too many requests with an Idempotency-Key",)"
     R"("status":429,)"
     R"("detail":"The tenant has too many Idempotency-Keys or too many concurrent requests. )"
     R"(This request was not forwarded, but an earlier one with the same key may have been. )"
     R"(Retry later with the same key.",)"
     R"("code":"idempotency_quota_exceeded"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_quota_exceeded",)"
     R"("message":"The tenant has too many Idempotency-Keys or too many concurrent requests. )"
     R"(This request was not forwarded, but an earlier one with the same key may have been. )"
     R"(Retry later with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_quota_exceeded"}})"},
    {protocol::Problem::RequestTooLarge, 413, 8,
     R"({"type":"https://d.example/i#idempotency_request_too_large",)"
     R"("title":"Request is too large",)"
     R"("status":413,)"
     R"("detail":"The request body exceeds the limit for requests with an Idempotency-Key. )"
     R"(This request was not forwarded.",)"
     R"("code":"idempotency_request_too_large"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_request_too_large",)"
     R"("message":"The request body exceeds the limit for requests with an Idempotency-Key. )"
     R"(This request was not forwarded.",)"
     R"("doc_url":"https://d.example/i#idempotency_request_too_large"}})"},
    {protocol::Problem::RequestTooOld, 400, 3,
     R"({"type":"https://d.example/i#idempotency_request_too_old",)"
     R"("title":"Request timestamp is not acceptable",)"
     R"("status":400,)"
     R"("detail":"The request's timestamp header is missing, cannot be read, or is too far from the current time. )"
     R"(This request was not forwarded.",)"
     R"("code":"idempotency_request_too_old"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_request_too_old",)"
     R"("message":"The request's timestamp header is missing, cannot be read, or is too far from the current time. )"
     R"(This request was not forwarded.",)"
     R"("doc_url":"https://d.example/i#idempotency_request_too_old"}})"},
    {protocol::Problem::RecordUnreadable, 503, 14,
     R"({"type":"https://d.example/i#idempotency_record_unreadable",)"
     R"("title":"Idempotency record cannot be read",)"
     R"("status":503,)"
     R"("detail":"An earlier request with this Idempotency-Key may have been processed. )"
     R"(Its record is in a format that this server cannot read. )"
     R"(This request was not forwarded. )"
     R"(Retry later with the same key.",)"
     R"("code":"idempotency_record_unreadable"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_record_unreadable",)"
     R"("message":"An earlier request with this Idempotency-Key may have been processed. )"
     R"(Its record is in a format that this server cannot read. )"
     R"(This request was not forwarded. )"
     R"(Retry later with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_record_unreadable"}})"},
    {protocol::Problem::ConfigInvalid, 500, 13,
     R"({"type":"https://d.example/i#idempotency_config_invalid",)"
     R"("title":"Idempotency policy is invalid",)"
     R"("status":500,)"
     R"("detail":"The idempotency policy of this operation is inconsistent. )"
     R"(This request was not forwarded.",)"
     R"("code":"idempotency_config_invalid"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_config_invalid",)"
     R"("message":"The idempotency policy of this operation is inconsistent. )"
     R"(This request was not forwarded.",)"
     R"("doc_url":"https://d.example/i#idempotency_config_invalid"}})"},
    {protocol::Problem::UpgradeRefused, 400, 3,
     R"({"type":"https://d.example/i#idempotency_upgrade_refused",)"
     R"("title":"Upgrade with an Idempotency-Key is not supported",)"
     R"("status":400,)"
     R"("detail":"The request contains an Upgrade header. )"
     R"(Upgraded connections cannot be replayed. )"
     R"(This request was not forwarded.",)"
     R"("code":"idempotency_upgrade_refused"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_upgrade_refused",)"
     R"("message":"The request contains an Upgrade header. )"
     R"(Upgraded connections cannot be replayed. )"
     R"(This request was not forwarded.",)"
     R"("doc_url":"https://d.example/i#idempotency_upgrade_refused"}})"},
    {protocol::Problem::Overloaded, 503, 14,
     R"({"type":"https://d.example/i#idempotency_overloaded",)"
     R"("title":"Server is overloaded",)"
     R"("status":503,)"
     R"("detail":"This request was refused because too many requests are in progress. )"
     R"(An earlier request with the same Idempotency-Key may have been processed. )"
     R"(Retry later with the same key.",)"
     R"("code":"idempotency_overloaded"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_overloaded",)"
     R"("message":"This request was refused because too many requests are in progress. )"
     R"(An earlier request with the same Idempotency-Key may have been processed. )"
     R"(Retry later with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_overloaded"}})"},
    {protocol::Problem::ExpectationFailed, 417, 3,
     R"({"type":"https://d.example/i#idempotency_expectation_failed",)"
     R"("title":"Expect: 100-continue is not supported",)"
     R"("status":417,)"
     R"("detail":"The request expects a 100 (Continue) response, which will not be sent. )"
     R"(Send it again with the same key, without the Expect header.",)"
     R"("code":"idempotency_expectation_failed"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_expectation_failed",)"
     R"("message":"The request expects a 100 (Continue) response, which will not be sent. )"
     R"(Send it again with the same key, without the Expect header.",)"
     R"("doc_url":"https://d.example/i#idempotency_expectation_failed"}})"},
    {protocol::Problem::DetachedUnavailable, 503, 14,
     R"({"type":"https://d.example/i#idempotency_detached_unavailable",)"
     R"("title":"Request could not be started",)"
     R"("status":503,)"
     R"("detail":"The server could not start this request. )"
     R"(It was not forwarded. )"
     R"(Retry later with the same key.",)"
     R"("code":"idempotency_detached_unavailable"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_detached_unavailable",)"
     R"("message":"The server could not start this request. )"
     R"(It was not forwarded. )"
     R"(Retry later with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_detached_unavailable"}})"},
    {protocol::Problem::DetachedTimeout, 504, 4,
     R"({"type":"https://d.example/i#idempotency_detached_timeout",)"
     R"("title":"Request did not finish in time",)"
     R"("status":504,)"
     R"("detail":"This request was forwarded but did not finish in time. )"
     R"(It may have been processed. )"
     R"(No request with this key will be forwarded until the result is known. )"
     R"(Find out whether the request was processed before you repeat the operation.",)"
     R"("code":"idempotency_detached_timeout"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_detached_timeout",)"
     R"("message":"This request was forwarded but did not finish in time. )"
     R"(It may have been processed. )"
     R"(No request with this key will be forwarded until the result is known. )"
     R"(Find out whether the request was processed before you repeat the operation.",)"
     R"("doc_url":"https://d.example/i#idempotency_detached_timeout"}})"},
    {protocol::Problem::DetachedLost, 502, 2,
     R"({"type":"https://d.example/i#idempotency_detached_lost",)"
     R"("title":"Response was lost",)"
     R"("status":502,)"
     R"("detail":"This request was forwarded, but no complete response was received. )"
     R"(It may have been processed. )"
     R"(No request with this key will be forwarded until the result is known. )"
     R"(Find out whether the request was processed before you repeat the operation.",)"
     R"("code":"idempotency_detached_lost"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_detached_lost",)"
     R"("message":"This request was forwarded, but no complete response was received. )"
     R"(It may have been processed. )"
     R"(No request with this key will be forwarded until the result is known. )"
     R"(Find out whether the request was processed before you repeat the operation.",)"
     R"("doc_url":"https://d.example/i#idempotency_detached_lost"}})"},
    {protocol::Problem::Asynchronous, 202, 10,
     R"({"type":"https://d.example/i#idempotency_in_progress",)"
     R"("title":"Request is being processed",)"
     R"("status":202,)"
     R"("detail":"The request is being processed. )"
     R"(Get its result from the URL in the Location header, or send the request again )"
     R"(with the same key.",)"
     R"("code":"idempotency_in_progress"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_in_use",)"
     R"("message":"The request is being processed. )"
     R"(Get its result from the URL in the Location header, or send the request again )"
     R"(with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_in_progress"}})"},
    {protocol::Problem::RunNotFound, 404, 5,
     R"({"type":"https://d.example/i#idempotency_run_not_found",)"
     R"("title":"Request not found",)"
     R"("status":404,)"
     R"("detail":"There is no record of a request under this URL. )"
     R"(If there was one, it left no result, or its record has expired.",)"
     R"("code":"idempotency_run_not_found"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_run_not_found",)"
     R"("message":"There is no record of a request under this URL. )"
     R"(If there was one, it left no result, or its record has expired.",)"
     R"("doc_url":"https://d.example/i#idempotency_run_not_found"}})"},
    {protocol::Problem::RunNotCompleted, 409, 10,
     R"({"type":"https://d.example/i#idempotency_run_not_completed",)"
     R"("title":"Request was not completed",)"
     R"("status":409,)"
     R"("detail":"The request failed in a way that permits a retry. )"
     R"(Send it again with the same key.",)"
     R"("code":"idempotency_run_not_completed"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_run_not_completed",)"
     R"("message":"The request failed in a way that permits a retry. )"
     R"(Send it again with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_run_not_completed"}})"},
};

constexpr const char* DocsUrl = "https://d.example/i";
constexpr const char* Link = "<https://d.example/i>; rel=\"describedby\"; type=\"text/html\"";

protocol::Policy policyOf(protocol::Flavor flavor) {
  protocol::Policy policy;
  policy.flavor = flavor;
  policy.mismatch_status = flavor == protocol::Flavor::Stripe ? 400 : 422;
  policy.docs_url = DocsUrl;
  return policy;
}

protocol::Answer answerOf(protocol::Problem problem) {
  protocol::Answer answer{.problem = problem};
  if (problem == protocol::Problem::KeyInvalid) {
    answer.key_problem = key::KeyRefusal{key::KeyProblem::TooShort, 5};
  }
  if (problem == protocol::Problem::ResponseUnavailable) {
    answer.original_status = 201;
  }
  return answer;
}

TEST(AnswerTest, EveryProblemHasItsRow) {
  ASSERT_EQ(std::size(Rows), protocol::problemTexts().size());
  for (size_t i = 0; i < std::size(Rows); ++i) {
    EXPECT_EQ(static_cast<size_t>(Rows[i].problem), i);
    EXPECT_EQ(static_cast<size_t>(protocol::problemTexts()[i].problem), i);
    EXPECT_EQ(protocol::problemText(Rows[i].problem).problem, Rows[i].problem);
  }
}

TEST(AnswerTest, IetfBytesAreExact) {
  for (const Row& row : Rows) {
    const HttpAnswer http =
        renderAnswer(policyOf(protocol::Flavor::Ietf), answerOf(row.problem), {});
    EXPECT_EQ(http.status, row.status);
    EXPECT_EQ(http.body, row.ietf);
    const char* type = row.status == 202 ? "application/json" : "application/problem+json";
    EXPECT_THAT(http.headers, ElementsAre(Pair("content-type", type), Pair("link", Link)));
  }
}

TEST(AnswerTest, StripeBytesAreExact) {
  for (const Row& row : Rows) {
    const HttpAnswer http =
        renderAnswer(policyOf(protocol::Flavor::Stripe), answerOf(row.problem), {});
    EXPECT_EQ(http.status, row.problem == protocol::Problem::KeyReused ? 400 : row.status);
    EXPECT_EQ(http.body, row.stripe);
    EXPECT_THAT(http.headers,
                ElementsAre(Pair("content-type", "application/json"), Pair("link", Link)));
  }
}

TEST(AnswerTest, AsynchronousOnesSayWhereAndWhat) {
  const HttpAnswer http = renderAnswer(
      policyOf(protocol::Flavor::Ietf),
      {.problem = protocol::Problem::Asynchronous, .retry_after = std::chrono::seconds(3)},
      {.location = "/runs/1f", .preference_applied = "respond-async, wait=2", .no_store = true});
  EXPECT_THAT(http.headers,
              testing::IsSupersetOf({Pair("location", "/runs/1f"), Pair("retry-after", "3"),
                                     Pair("preference-applied", "respond-async, wait=2"),
                                     Pair("cache-control", "no-store")}));
}

TEST(AnswerTest, TitlesOfTheDraft) {
  EXPECT_EQ(protocol::problemText(protocol::Problem::KeyMissing).title,
            "Idempotency-Key is missing");
  EXPECT_EQ(protocol::problemText(protocol::Problem::KeyReused).title,
            "Idempotency-Key is already used");
  EXPECT_EQ(protocol::problemText(protocol::Problem::InProgress).title,
            "A request is outstanding for this Idempotency-Key");
}

TEST(AnswerTest, CodesAreDistinctButForTheTwoAnswersToOneSituation) {
  std::set<std::string_view> codes;
  for (const protocol::ProblemText& text : protocol::problemTexts()) {
    EXPECT_TRUE(codes.insert(text.code).second || text.problem == protocol::Problem::Accepted ||
                text.problem == protocol::Problem::Asynchronous ||
                text.problem == protocol::Problem::UnknownExpired)
        << text.code;
    EXPECT_TRUE(text.code.starts_with("idempotency_")) << text.code;
  }
}

// A client that follows these must not run a payment twice.
TEST(AnswerTest, DetailsStateFactsAndInviteToNoSecondRun) {
  for (const protocol::ProblemText& text : protocol::problemTexts()) {
    // What was refused here may have run before, under the same key.
    EXPECT_THAT(text.detail, testing::Not(testing::HasSubstr("not processed"))) << text.code;
    EXPECT_THAT(text.detail, testing::Not(testing::HasSubstr("as a new request"))) << text.code;
  }
  for (const protocol::Problem problem :
       {protocol::Problem::StoreUnavailable, protocol::Problem::OutcomeUnknown,
        protocol::Problem::KeyExpired, protocol::Problem::UnknownExpired,
        protocol::Problem::RecordUnreadable}) {
    const std::string_view detail = protocol::problemText(problem).detail;
    EXPECT_THAT(detail, testing::HasSubstr("may have been processed"))
        << protocol::problemCode(problem);
    EXPECT_THAT(detail, testing::HasSubstr("This request was not forwarded"))
        << protocol::problemCode(problem);
  }
  for (const protocol::Problem problem :
       {protocol::Problem::OutcomeUnknown, protocol::Problem::UnknownExpired,
        protocol::Problem::DetachedTimeout, protocol::Problem::DetachedLost}) {
    const std::string_view detail = protocol::problemText(problem).detail;
    EXPECT_THAT(detail, testing::HasSubstr("may have been processed"))
        << protocol::problemCode(problem);
    EXPECT_THAT(detail, testing::HasSubstr("Find out whether")) << protocol::problemCode(problem);
    for (const char* const invitation : {"again later", "Retry", "new key", "another key"}) {
      EXPECT_THAT(detail, testing::Not(testing::HasSubstr(invitation)))
          << protocol::problemCode(problem);
    }
  }
}

TEST(AnswerTest, MismatchStatusIsThePolicys) {
  for (const uint16_t status : {400, 409, 422}) {
    protocol::Policy policy;
    policy.mismatch_status = status;
    const HttpAnswer http = renderAnswer(policy, {.problem = protocol::Problem::KeyReused}, {});
    EXPECT_EQ(http.status, status);
    EXPECT_THAT(http.body, testing::HasSubstr("\"status\":" + std::to_string(status)));
  }
}

TEST(AnswerTest, WithoutDocumentationTheTypeIsBlank) {
  const HttpAnswer ietf =
      renderAnswer(protocol::Policy{}, {.problem = protocol::Problem::KeyExpired}, {});
  EXPECT_THAT(ietf.body, testing::StartsWith(R"({"type":"about:blank","title":)"));
  EXPECT_THAT(ietf.headers, ElementsAre(Pair("content-type", "application/problem+json")));
  protocol::Policy policy;
  policy.flavor = protocol::Flavor::Stripe;
  const HttpAnswer stripe = renderAnswer(policy, {.problem = protocol::Problem::KeyExpired}, {});
  EXPECT_THAT(stripe.body, testing::EndsWith(R"(for a new request."}})"));
  EXPECT_THAT(stripe.body, testing::Not(testing::HasSubstr("doc_url")));
}

TEST(AnswerTest, RetryAfterAndExpiryAreHeaders) {
  const HttpAnswer http = renderAnswer(
      protocol::Policy{}, {.problem = protocol::Problem::InProgress, .retry_after = 7s},
      {.expires_at = 784111777});
  EXPECT_THAT(
      http.headers,
      ElementsAre(Pair("content-type", "application/problem+json"), Pair("retry-after", "7"),
                  Pair("idempotency-key-expires", "Sun, 06 Nov 1994 08:49:37 GMT")));
}

TEST(AnswerTest, EveryKeyProblemIsExplained) {
  std::set<std::string> bodies;
  for (const key::KeyProblem problem :
       {key::KeyProblem::TwoLines, key::KeyProblem::Malformed, key::KeyProblem::BadCharacter,
        key::KeyProblem::TooShort, key::KeyProblem::TooLong, key::KeyProblem::NotUuid}) {
    const size_t length = problem == key::KeyProblem::TooLong ? 300 : 5;
    const protocol::Answer answer{.problem = protocol::Problem::KeyInvalid,
                                  .key_problem = key::KeyRefusal{problem, length}};
    EXPECT_TRUE(bodies.insert(renderAnswer(protocol::Policy{}, answer, {}).body).second);
  }
}

TEST(AnswerTest, LengthsAreThoseOfThePolicy) {
  protocol::Policy policy;
  policy.key.min_length = 20;
  policy.key.max_length = 40;
  const protocol::Answer answer{.problem = protocol::Problem::KeyInvalid,
                                .key_problem = key::KeyRefusal{key::KeyProblem::TooLong, 41}};
  EXPECT_THAT(renderAnswer(policy, answer, {}).body,
              testing::HasSubstr("The key has 41 characters; this operation requires 20 to 40."));
}

TEST(AnswerTest, DocumentationUrlCannotBreakTheBody) {
  protocol::Policy policy;
  policy.docs_url = "https://d.example/\"\\\n";  // No config lets this through.
  const HttpAnswer http = renderAnswer(policy, {.problem = protocol::Problem::KeyExpired}, {});
  EXPECT_THAT(http.body, testing::StartsWith(
                             R"({"type":"https://d.example/\"\\\n#idempotency_key_expired",)"));
}

TEST(AnswerTest, GrpcGetsAStatusWithoutABody) {
  for (const Row& row : Rows) {
    const HttpAnswer http =
        renderAnswer(policyOf(protocol::Flavor::Ietf), answerOf(row.problem), {.grpc = true});
    EXPECT_EQ(http.status, 200);
    EXPECT_EQ(http.body, "");
    ASSERT_GE(http.headers.size(), 3u);
    EXPECT_THAT(http.headers[0], Pair("content-type", "application/grpc"));
    EXPECT_THAT(http.headers[1], Pair("grpc-status", std::to_string(row.grpc_status)));
    EXPECT_THAT(http.headers[2],
                Pair("grpc-message",
                     testing::StartsWith(std::string(protocol::problemCode(row.problem)) + ": ")));
  }
  const HttpAnswer http =
      renderAnswer(protocol::Policy{},
                   {.problem = protocol::Problem::InProgress, .retry_after = 2s}, {.grpc = true});
  EXPECT_THAT(http.headers, testing::Contains(Pair("retry-after", "2")));
}

TEST(AnswerTest, ProblemThatIsNoneRefuses) {
  EXPECT_EQ(protocol::problemText(static_cast<protocol::Problem>(200)).problem,
            protocol::Problem::StoreUnavailable);
  EXPECT_EQ(renderAnswer(protocol::Policy{}, protocol::Answer{}, {}).status, 503);
}

}  // namespace
}  // namespace idempotency::message
