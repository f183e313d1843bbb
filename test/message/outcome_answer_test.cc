#include "source/message/outcome_answer.h"

#include <string>

#include "gtest/gtest.h"

#include "source/message/stored_response.h"

namespace idempotency::message {
namespace {

using protocol::FieldList;
using protocol::ReconcileSettings;
using protocol::StoredResponse;

OutcomeAnswer answer(int status, FieldList headers, std::string body) {
  return {.failure = {}, .status = status, .headers = std::move(headers), .body = std::move(body)};
}

fingerprint::JsonPointer pointer(std::string_view text) {
  return *fingerprint::JsonPointer::parse(text);
}

ReconcileSettings withPointers() {
  ReconcileSettings settings;
  settings.response = {
      .status = pointer("/r/status"), .headers = pointer("/r/headers"), .body = pointer("/r/body")};
  return settings;
}

StoredResponse stored(const ReconcileSettings& settings, const OutcomeAnswer& given) {
  const absl::StatusOr<protocol::Completed> result = resultOf(settings, given);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tombstone, protocol::Tombstone::None);
  const absl::StatusOr<StoredResponse> response = parseResponse(result->response);
  EXPECT_TRUE(response.ok());
  EXPECT_EQ(result->status, response->status);
  EXPECT_EQ(result->response_schema, protocol::ResponseSchema);
  return *response;
}

std::string bodyFrom(const std::string& json, std::string_view text) {
  ReconcileSettings settings;
  settings.response.body = pointer(text);
  return stored(settings, answer(200, {}, json)).body;
}

std::string refusal(const ReconcileSettings& settings, const OutcomeAnswer& given) {
  return std::string(resultOf(settings, given).status().message());
}

TEST(OutcomeAnswerTest, WithoutPointersTheAnswerIsTheResponse) {
  const std::string body("binary\0\xff", 8);
  EXPECT_EQ(stored({}, answer(201, {{"location", "/p/1"}, {"x-a", ""}}, body)),
            (StoredResponse{201, {{"location", "/p/1"}, {"x-a", ""}}, body, {}}));
}

TEST(OutcomeAnswerTest, HeadersThatAreNeverStoredAreLeftOut) {
  const FieldList headers = {
      {"set-cookie", "a"},           {"content-length", "2"}, {"idempotency-outcome", "completed"},
      {"connection", "x-hop"},       {"x-hop", "1"},          {"server", "s"},
      {"content-type", "text/plain"}};
  EXPECT_EQ(stored({}, answer(200, headers, "ok")).headers,
            (FieldList{{"content-type", "text/plain"}}));
}

TEST(OutcomeAnswerTest, PointersNameThePartsOfTheResponse) {
  const std::string json =
      R"({"r": {"status": 402, "headers": {"Content-Type": "text/plain", "Via": ["a", "b"]},
                "body": "declined\n"}})";
  EXPECT_EQ(
      stored(withPointers(), answer(200, {{"x-answer", "1"}}, json)),
      (StoredResponse{
          402, {{"content-type", "text/plain"}, {"via", "a"}, {"via", "b"}}, "declined\n", {}}));
}

TEST(OutcomeAnswerTest, PartsWithoutAPointerAreTheAnswersOwn) {
  ReconcileSettings settings;
  settings.response.status = pointer("/status");
  const std::string json = R"({"status": 422})";
  EXPECT_EQ(stored(settings, answer(200, {{"x-a", "1"}}, json)),
            (StoredResponse{422, {{"x-a", "1"}}, json, {}}));
}

TEST(OutcomeAnswerTest, BodyIsReplayedByteForByte) {
  EXPECT_EQ(bodyFrom(R"({"b": "a\u0041\n\"\u00e9"})", "/b"), "aA\n\"\xc3\xa9");
  EXPECT_EQ(bodyFrom(R"({"a": 0, "b": { "x" : [1.10, 1e2] } , "c": 1})", "/b"),
            R"({ "x" : [1.10, 1e2] })");
  EXPECT_EQ(bodyFrom(R"({"b": [ 1, {} ] })", "/b"), "[ 1, {} ]");
  EXPECT_EQ(bodyFrom(R"({"b":  1.50  })", "/b"), "1.50");
  EXPECT_EQ(bodyFrom(R"({"b": true})", "/b"), "true");
  EXPECT_EQ(bodyFrom(R"({"b": null})", "/b"), "");
  EXPECT_EQ(bodyFrom(R"({"b/c": [0, "x"]})", "/b~1c/1"), "x");
  EXPECT_EQ(bodyFrom("[1, 2]", ""), "[1, 2]");
}

TEST(OutcomeAnswerTest, AMissingPartMakesTheAnswerUseless) {
  const auto refused = [](const std::string& json) {
    return refusal(withPointers(), answer(200, {}, json));
  };
  EXPECT_EQ(refused("ok"), "answer: not JSON");
  EXPECT_EQ(refused("{}"), "status: not an integer");
  EXPECT_EQ(refused(R"({"r": {"status": "200", "headers": {}, "body": ""}})"),
            "status: not an integer");
  EXPECT_EQ(refused(R"({"r": {"status": 100, "headers": {}, "body": ""}})"),
            "status: not a final HTTP status");
  EXPECT_EQ(refused(R"({"r": {"status": 600, "headers": {}, "body": ""}})"),
            "status: not a final HTTP status");
  EXPECT_EQ(refused(R"({"r": {"status": 200, "headers": [], "body": ""}})"),
            "headers: not an object");
  EXPECT_EQ(refused(R"({"r": {"status": 200, "headers": {"a": 1}, "body": ""}})"),
            "headers: a value is neither a string nor a list of strings");
  EXPECT_EQ(refused(R"({"r": {"status": 200, "headers": {"a": "x\r\nb: c"}, "body": ""}})"),
            "headers: a field that must not be replayed");
  EXPECT_EQ(refused(R"({"r": {"status": 200, "headers": {}}})"), "body: missing");
  EXPECT_FALSE(observe(withPointers(), answer(200, {}, "{}"), {}).usable);
}

// It would be stored, and every retry would get 503.
TEST(OutcomeAnswerTest, ResponseThatCouldNotBeReadAgainIsUseless) {
  std::string lines = R"("x")";
  for (int i = 1; i < 1000; ++i) {
    lines += R"(,"x")";
  }
  const auto json = [](const std::string& many) {
    return R"({"r": {"status": 200, "headers": {"via": [)" + many + R"(]}, "body": "b"}})";
  };
  EXPECT_EQ(stored(withPointers(), answer(200, {}, json(lines))).headers.size(), 1000U);
  EXPECT_EQ(refusal(withPointers(), answer(200, {}, json(lines + R"(,"x")"))),
            "response: too large, or too many headers");
}

TEST(OutcomeAnswerTest, WhatMayNotBeStoredLeavesItsStatus) {
  ReconcileSettings secret;
  secret.store_response = false;
  const auto kept_back = resultOf(secret, answer(201, {}, "secret"));
  ASSERT_TRUE(kept_back.ok());
  EXPECT_EQ(kept_back->tombstone, protocol::Tombstone::Secret);
  EXPECT_EQ(kept_back->status, 201);
  EXPECT_EQ(kept_back->response, "");

  ReconcileSettings small;
  small.max_response_bytes = 3;
  EXPECT_EQ(stored(small, answer(200, {}, "123")).body, "123");
  const auto large = resultOf(small, answer(200, {}, "1234"));
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(large->tombstone, protocol::Tombstone::TooLarge);
  EXPECT_EQ(large->response, "");
}

TEST(OutcomeAnswerTest, TheRulesSeeWhatTheAnswerSays) {
  const protocol::SeenAnswer seen =
      observe({}, answer(404, {{"idempotency-outcome", "not-run"}}, ""), std::chrono::seconds(7));
  EXPECT_TRUE(seen.came);
  EXPECT_EQ(seen.status, 404);
  EXPECT_EQ(seen.declared, protocol::DeclaredOutcome::NotRun);
  EXPECT_EQ(seen.proxy, protocol::ProxyEvidence::None);
  EXPECT_FALSE(seen.has_body);
  EXPECT_EQ(seen.claim_age, std::chrono::seconds(7));
  EXPECT_EQ(
      observe({}, answer(200, {{"idempotency-outcome", "a"}, {"idempotency-outcome", "b"}}, ""), {})
          .declared,
      protocol::DeclaredOutcome::Invalid);
  EXPECT_EQ(observe({}, answer(503, {}, "no healthy upstream"), {}).proxy,
            protocol::ProxyEvidence::InDoubt);
  OutcomeAnswer none;
  none.failure = "no answer in time";
  EXPECT_FALSE(observe({}, none, {}).came);
}

}  // namespace
}  // namespace idempotency::message
