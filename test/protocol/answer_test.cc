#include "source/protocol/answer.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::Pair;
using namespace std::chrono_literals;

// Clients depend on these bytes.
struct Row {
  Problem problem;
  int status;
  int grpc_status;
  const char* ietf;
  const char* stripe;
};

constexpr Row Rows[] = {
    {Problem::StoreUnavailable, 503, 14,
     R"({"type":"https://d.example/i#idempotency_store_unavailable",)"
     R"("title":"Idempotency store is unavailable",)"
     R"("status":503,)"
     R"("detail":"The request was not processed, because its Idempotency-Key could not be )"
     R"(recorded. )"
     R"(Send it again later with the same key.",)"
     R"("code":"idempotency_store_unavailable"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_store_unavailable",)"
     R"("message":"The request was not processed, because its Idempotency-Key could not be )"
     R"(recorded. )"
     R"(Send it again later with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_store_unavailable"}})"},
    {Problem::KeyMissing, 400, 3,
     R"({"type":"https://d.example/i#idempotency_key_missing",)"
     R"("title":"Idempotency-Key is missing",)"
     R"("status":400,)"
     R"("detail":"This operation needs an Idempotency-Key header. )"
     R"(Use a new key for each new request and the same key to send a request again.",)"
     R"("code":"idempotency_key_missing"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_key_missing",)"
     R"("message":"This operation needs an Idempotency-Key header. )"
     R"(Use a new key for each new request and the same key to send a request again.",)"
     R"("doc_url":"https://d.example/i#idempotency_key_missing"}})"},
    {Problem::KeyInvalid, 400, 3,
     R"({"type":"https://d.example/i#idempotency_key_invalid",)"
     R"("title":"Idempotency-Key is invalid",)"
     R"("status":400,)"
     R"("detail":"The Idempotency-Key header does not have the form that this operation )"
     R"(accepts. )"
     R"(The Idempotency-Key is too short.",)"
     R"("code":"idempotency_key_invalid"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_key_invalid",)"
     R"("message":"The Idempotency-Key header does not have the form that this operation )"
     R"(accepts. )"
     R"(The Idempotency-Key is too short.",)"
     R"("doc_url":"https://d.example/i#idempotency_key_invalid"}})"},
    {Problem::TenantMissing, 403, 7,
     R"({"type":"https://d.example/i#idempotency_tenant_missing",)"
     R"("title":"Sender of the request is not known",)"
     R"("status":403,)"
     R"("detail":"Who sent the request cannot be told, so its Idempotency-Key cannot be )"
     R"(used.",)"
     R"("code":"idempotency_tenant_missing"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_tenant_missing",)"
     R"("message":"Who sent the request cannot be told, so its Idempotency-Key cannot be )"
     R"(used.",)"
     R"("doc_url":"https://d.example/i#idempotency_tenant_missing"}})"},
    {Problem::KeyReused, 422, 6,
     R"({"type":"https://d.example/i#idempotency_key_reused",)"
     R"("title":"Idempotency-Key is already used",)"
     R"("status":422,)"
     R"("detail":"The Idempotency-Key was used before with a different request. )"
     R"(Use a new key for a new request.",)"
     R"("code":"idempotency_key_reused"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_reused",)"
     R"("message":"The Idempotency-Key was used before with a different request. )"
     R"(Use a new key for a new request.",)"
     R"("doc_url":"https://d.example/i#idempotency_key_reused"}})"},
    {Problem::InProgress, 409, 10,
     R"({"type":"https://d.example/i#idempotency_in_progress",)"
     R"("title":"A request is outstanding for this Idempotency-Key",)"
     R"("status":409,)"
     R"("detail":"An earlier request with this Idempotency-Key is still being processed. )"
     R"(Send the request again later with the same key to get its result.",)"
     R"("code":"idempotency_in_progress"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_in_use",)"
     R"("message":"An earlier request with this Idempotency-Key is still being processed. )"
     R"(Send the request again later with the same key to get its result.",)"
     R"("doc_url":"https://d.example/i#idempotency_in_progress"}})"},
    {Problem::Accepted, 202, 10,
     R"({"type":"https://d.example/i#idempotency_in_progress",)"
     R"("title":"A request is outstanding for this Idempotency-Key",)"
     R"("status":202,)"
     R"("detail":"An earlier request with this Idempotency-Key is still being processed. )"
     R"(Send the request again later with the same key to get its result.",)"
     R"("code":"idempotency_in_progress"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_in_use",)"
     R"("message":"An earlier request with this Idempotency-Key is still being processed. )"
     R"(Send the request again later with the same key to get its result.",)"
     R"("doc_url":"https://d.example/i#idempotency_in_progress"}})"},
    {Problem::OutcomeUnknown, 409, 9,
     R"({"type":"https://d.example/i#idempotency_outcome_unknown",)"
     R"("title":"The outcome of an earlier request is not known",)"
     R"("status":409,)"
     R"("detail":"An earlier request with this Idempotency-Key may have been processed, and )"
     R"(its result is not known. )"
     R"(It is not processed again before that is settled. )"
     R"(Send the request again later with the same key; with a new key it would be )"
     R"(processed as a new request.",)"
     R"("code":"idempotency_outcome_unknown"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_outcome_unknown",)"
     R"("message":"An earlier request with this Idempotency-Key may have been processed, )"
     R"(and its result is not known. )"
     R"(It is not processed again before that is settled. )"
     R"(Send the request again later with the same key; with a new key it would be )"
     R"(processed as a new request.",)"
     R"("doc_url":"https://d.example/i#idempotency_outcome_unknown"}})"},
    {Problem::ResponseUnavailable, 409, 6,
     R"({"type":"https://d.example/i#idempotency_response_unavailable",)"
     R"("title":"The response to an earlier request is not available",)"
     R"("status":409,)"
     R"("detail":"A request with this Idempotency-Key has been processed, but its response )"
     R"(was not kept. )"
     R"(It is not processed again. )"
     R"(The status of that response was 201.",)"
     R"("code":"idempotency_response_unavailable",)"
     R"("original_status":201})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_response_unavailable",)"
     R"("message":"A request with this Idempotency-Key has been processed, but its response )"
     R"(was not kept. )"
     R"(It is not processed again. )"
     R"(The status of that response was 201.",)"
     R"("doc_url":"https://d.example/i#idempotency_response_unavailable"}})"},
    {Problem::KeyExpired, 410, 9,
     R"({"type":"https://d.example/i#idempotency_key_expired",)"
     R"("title":"Idempotency-Key has expired",)"
     R"("status":410,)"
     R"("detail":"The Idempotency-Key was used before and its result is no longer kept. )"
     R"(Use a new key for a new request.",)"
     R"("code":"idempotency_key_expired"})",
     R"({"error":{"type":"idempotency_error",)"
     R"("code":"idempotency_key_expired",)"
     R"("message":"The Idempotency-Key was used before and its result is no longer kept. )"
     R"(Use a new key for a new request.",)"
     R"("doc_url":"https://d.example/i#idempotency_key_expired"}})"},
    {Problem::QuotaExceeded, 429, 8,
     R"({"type":"https://d.example/i#idempotency_quota_exceeded",)"
     R"("title":"Too many Idempotency-Keys",)"
     R"("status":429,)"
     R"("detail":"The sender uses more Idempotency-Keys than it may. )"
     R"(The request was not processed. )"
     R"(Send it again later with the same key.",)"
     R"("code":"idempotency_quota_exceeded"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_quota_exceeded",)"
     R"("message":"The sender uses more Idempotency-Keys than it may. )"
     R"(The request was not processed. )"
     R"(Send it again later with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_quota_exceeded"}})"},
    {Problem::RequestTooLarge, 413, 8,
     R"({"type":"https://d.example/i#idempotency_request_too_large",)"
     R"("title":"Request is too large",)"
     R"("status":413,)"
     R"("detail":"The request's body is larger than this operation accepts with an )"
     R"(Idempotency-Key. )"
     R"(The request was not processed.",)"
     R"("code":"idempotency_request_too_large"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_request_too_large",)"
     R"("message":"The request's body is larger than this operation accepts with an )"
     R"(Idempotency-Key. )"
     R"(The request was not processed.",)"
     R"("doc_url":"https://d.example/i#idempotency_request_too_large"}})"},
    {Problem::RequestTooOld, 400, 3,
     R"({"type":"https://d.example/i#idempotency_request_too_old",)"
     R"("title":"Time of the request is not acceptable",)"
     R"("status":400,)"
     R"("detail":"The header with the time of the request is missing, cannot be read, or is )"
     R"(too far from the present. )"
     R"(The request was not processed.",)"
     R"("code":"idempotency_request_too_old"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_request_too_old",)"
     R"("message":"The header with the time of the request is missing, cannot be read, or )"
     R"(is too far from the present. )"
     R"(The request was not processed.",)"
     R"("doc_url":"https://d.example/i#idempotency_request_too_old"}})"},
    {Problem::RecordUnreadable, 503, 14,
     R"({"type":"https://d.example/i#idempotency_record_unreadable",)"
     R"("title":"Idempotency record cannot be read",)"
     R"("status":503,)"
     R"("detail":"An earlier request with this Idempotency-Key is on record in a form that )"
     R"(cannot be read here. )"
     R"(The request was not processed. )"
     R"(Send it again later with the same key.",)"
     R"("code":"idempotency_record_unreadable"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_record_unreadable",)"
     R"("message":"An earlier request with this Idempotency-Key is on record in a form that )"
     R"(cannot be read here. )"
     R"(The request was not processed. )"
     R"(Send it again later with the same key.",)"
     R"("doc_url":"https://d.example/i#idempotency_record_unreadable"}})"},
    {Problem::ConfigInvalid, 500, 13,
     R"({"type":"https://d.example/i#idempotency_config_invalid",)"
     R"("title":"Idempotency policy is invalid",)"
     R"("status":500,)"
     R"("detail":"The idempotency policy of this operation contradicts itself. )"
     R"(The request was not processed.",)"
     R"("code":"idempotency_config_invalid"})",
     R"({"error":{"type":"api_error",)"
     R"("code":"idempotency_config_invalid",)"
     R"("message":"The idempotency policy of this operation contradicts itself. )"
     R"(The request was not processed.",)"
     R"("doc_url":"https://d.example/i#idempotency_config_invalid"}})"},
    {Problem::UpgradeRefused, 400, 3,
     R"({"type":"https://d.example/i#idempotency_upgrade_refused",)"
     R"("title":"Upgrade with an Idempotency-Key is not supported",)"
     R"("status":400,)"
     R"("detail":"The request asks for another protocol on its connection, whose answer could )"
     R"(not be replayed. )"
     R"(The request was not processed.",)"
     R"("code":"idempotency_upgrade_refused"})",
     R"({"error":{"type":"invalid_request_error",)"
     R"("code":"idempotency_upgrade_refused",)"
     R"("message":"The request asks for another protocol on its connection, whose answer could )"
     R"(not be replayed. )"
     R"(The request was not processed.",)"
     R"("doc_url":"https://d.example/i#idempotency_upgrade_refused"}})"},
};

constexpr const char* DocsUrl = "https://d.example/i";
constexpr const char* Link = "<https://d.example/i>; rel=\"describedby\"; type=\"text/html\"";

Policy policyOf(Flavor flavor) {
  Policy policy;
  policy.flavor = flavor;
  policy.mismatch_status = flavor == Flavor::Stripe ? 400 : 422;
  policy.docs_url = DocsUrl;
  return policy;
}

Answer answerOf(Problem problem) {
  Answer answer{.problem = problem};
  if (problem == Problem::KeyInvalid) {
    answer.key_problem = KeyProblem::TooShort;
  }
  if (problem == Problem::ResponseUnavailable) {
    answer.original_status = 201;
  }
  return answer;
}

TEST(AnswerTest, EveryProblemHasItsRow) {
  ASSERT_EQ(std::size(Rows), problemTexts().size());
  for (size_t i = 0; i < std::size(Rows); ++i) {
    EXPECT_EQ(static_cast<size_t>(Rows[i].problem), i);
    EXPECT_EQ(static_cast<size_t>(problemTexts()[i].problem), i);
    EXPECT_EQ(problemText(Rows[i].problem).problem, Rows[i].problem);
  }
}

TEST(AnswerTest, IetfBytesAreExact) {
  for (const Row& row : Rows) {
    const HttpAnswer http = renderAnswer(policyOf(Flavor::Ietf), answerOf(row.problem), {});
    EXPECT_EQ(http.status, row.status);
    EXPECT_EQ(http.body, row.ietf);
    const char* type =
        row.problem == Problem::Accepted ? "application/json" : "application/problem+json";
    EXPECT_THAT(http.headers, ElementsAre(Pair("content-type", type), Pair("link", Link)));
  }
}

TEST(AnswerTest, StripeBytesAreExact) {
  for (const Row& row : Rows) {
    const HttpAnswer http = renderAnswer(policyOf(Flavor::Stripe), answerOf(row.problem), {});
    EXPECT_EQ(http.status, row.problem == Problem::KeyReused ? 400 : row.status);
    EXPECT_EQ(http.body, row.stripe);
    EXPECT_THAT(http.headers,
                ElementsAre(Pair("content-type", "application/json"), Pair("link", Link)));
  }
}

TEST(AnswerTest, TitlesOfTheDraft) {
  EXPECT_EQ(problemText(Problem::KeyMissing).title, "Idempotency-Key is missing");
  EXPECT_EQ(problemText(Problem::KeyReused).title, "Idempotency-Key is already used");
  EXPECT_EQ(problemText(Problem::InProgress).title,
            "A request is outstanding for this Idempotency-Key");
}

TEST(AnswerTest, CodesAreDistinctButForTheTwoAnswersToOneSituation) {
  std::set<std::string_view> codes;
  for (const ProblemText& text : problemTexts()) {
    EXPECT_TRUE(codes.insert(text.code).second || text.problem == Problem::Accepted) << text.code;
    EXPECT_TRUE(text.code.starts_with("idempotency_")) << text.code;
  }
}

TEST(AnswerTest, MismatchStatusIsThePolicys) {
  for (const uint16_t status : {400, 409, 422}) {
    Policy policy;
    policy.mismatch_status = status;
    const HttpAnswer http = renderAnswer(policy, {.problem = Problem::KeyReused}, {});
    EXPECT_EQ(http.status, status);
    EXPECT_THAT(http.body, testing::HasSubstr("\"status\":" + std::to_string(status)));
  }
}

TEST(AnswerTest, WithoutDocumentationTheTypeIsBlank) {
  const HttpAnswer ietf = renderAnswer(Policy{}, {.problem = Problem::KeyExpired}, {});
  EXPECT_THAT(ietf.body, testing::StartsWith(R"({"type":"about:blank","title":)"));
  EXPECT_THAT(ietf.headers, ElementsAre(Pair("content-type", "application/problem+json")));
  Policy policy;
  policy.flavor = Flavor::Stripe;
  const HttpAnswer stripe = renderAnswer(policy, {.problem = Problem::KeyExpired}, {});
  EXPECT_THAT(stripe.body, testing::EndsWith(R"(new request."}})"));
  EXPECT_THAT(stripe.body, testing::Not(testing::HasSubstr("doc_url")));
}

TEST(AnswerTest, RetryAfterAndExpiryAreHeaders) {
  const HttpAnswer http = renderAnswer(
      Policy{}, {.problem = Problem::InProgress, .retry_after = 7s}, {.expires_at = 784111777});
  EXPECT_THAT(
      http.headers,
      ElementsAre(Pair("content-type", "application/problem+json"), Pair("retry-after", "7"),
                  Pair("idempotency-key-expires", "Sun, 06 Nov 1994 08:49:37 GMT")));
}

TEST(AnswerTest, EveryKeyProblemIsExplained) {
  std::set<std::string> bodies;
  for (const KeyProblem problem :
       {KeyProblem::TwoLines, KeyProblem::Malformed, KeyProblem::BadCharacter, KeyProblem::TooShort,
        KeyProblem::TooLong, KeyProblem::NotUuid}) {
    const Answer answer{.problem = Problem::KeyInvalid, .key_problem = problem};
    EXPECT_TRUE(bodies.insert(renderAnswer(Policy{}, answer, {}).body).second);
  }
}

TEST(AnswerTest, DocumentationUrlCannotBreakTheBody) {
  Policy policy;
  policy.docs_url = "https://d.example/\"\\\n";  // No config lets this through.
  const HttpAnswer http = renderAnswer(policy, {.problem = Problem::KeyExpired}, {});
  EXPECT_THAT(http.body, testing::StartsWith(
                             R"({"type":"https://d.example/\"\\\n#idempotency_key_expired",)"));
}

TEST(AnswerTest, GrpcGetsAStatusWithoutABody) {
  for (const Row& row : Rows) {
    const HttpAnswer http =
        renderAnswer(policyOf(Flavor::Ietf), answerOf(row.problem), {.grpc = true});
    EXPECT_EQ(http.status, 200);
    EXPECT_EQ(http.body, "");
    ASSERT_GE(http.headers.size(), 3u);
    EXPECT_THAT(http.headers[0], Pair("content-type", "application/grpc"));
    EXPECT_THAT(http.headers[1], Pair("grpc-status", std::to_string(row.grpc_status)));
    EXPECT_THAT(
        http.headers[2],
        Pair("grpc-message", testing::StartsWith(std::string(problemCode(row.problem)) + ": ")));
  }
  const HttpAnswer http =
      renderAnswer(Policy{}, {.problem = Problem::InProgress, .retry_after = 2s}, {.grpc = true});
  EXPECT_THAT(http.headers, testing::Contains(Pair("retry-after", "2")));
}

TEST(AnswerTest, ProblemThatIsNoneRefuses) {
  EXPECT_EQ(problemText(static_cast<Problem>(200)).problem, Problem::StoreUnavailable);
  EXPECT_EQ(renderAnswer(Policy{}, Answer{}, {}).status, 503);
}

}  // namespace
}  // namespace idempotency
