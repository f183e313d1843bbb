// The life of one request in the filter: every state, on a fake Envoy and a store in memory.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/http/http_date.h"
#include "source/message/stored_response.h"
#include "source/protocol/record.h"
#include "test/filter/filter_rig.h"

namespace idempotency::test {
namespace {

using envoy::raw::Attribute;
using envoy::raw::BodyAction;
using envoy::raw::HeadersAction;
using envoy::raw::TrailersAction;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

using namespace std::chrono_literals;

using StreamFilterTest = FilterRig;

const auto RequestMap = static_cast<size_t>(envoy::raw::HeaderMap::Request);
const auto ResponseMap = static_cast<size_t>(envoy::raw::HeaderMap::Response);

// --- Claim before the upstream

TEST_F(StreamFilterTest, RequestGoesOnOnlyWhenItsClaimIsStored) {
  config();
  store().pause();
  const auto stream = newStream();
  EXPECT_EQ(stream->requestHeaders(request(), false), HeadersAction::StopIteration);
  EXPECT_EQ(stream->requestBody("{}", true), BodyAction::StopIterationAndBuffer);
  stream->runScheduled();
  EXPECT_EQ(stream->continued_request, 0);
  store().resume();
  settle(*stream);
  EXPECT_EQ(stream->continued_request, 1);
  const auto claimed = record();
  ASSERT_TRUE(claimed.has_value());
  EXPECT_EQ(claimed->state, protocol::RecordState::InProgress);
  EXPECT_EQ(header(stream->maps[RequestMap], "idempotency-attempt"),
            std::to_string(claimed->attempt));
  EXPECT_THAT(stream->maps[RequestMap], Not(Contains(Key("idempotency-recovery-point"))));
  EXPECT_EQ(config().counter("claim.created"), 1u);
  EXPECT_EQ(config().gauge("in_flight"), 1u);
}

TEST_F(StreamFilterTest, RequestWithoutABodyIsClaimedAtItsHeaders) {
  const auto stream = newStream();
  EXPECT_EQ(stream->requestHeaders(request(), true), HeadersAction::StopIteration);
  settle(*stream);
  EXPECT_EQ(stream->continued_request, 1);
}

TEST_F(StreamFilterTest, RequestWithTrailersIsClaimedAtItsTrailers) {
  const auto stream = newStream();
  stream->requestHeaders(request(), false);
  EXPECT_EQ(stream->requestBody("{", false), BodyAction::StopIterationAndBuffer);
  EXPECT_EQ(stream->requestBody("}", false), BodyAction::StopIterationAndBuffer);
  EXPECT_FALSE(record().has_value());
  EXPECT_EQ(stream->requestTrailers({{"t", "1"}}), TrailersAction::StopIteration);
  settle(*stream);
  EXPECT_EQ(stream->continued_request, 1);
  EXPECT_EQ(stateOf(), protocol::RecordState::InProgress);
}

TEST_F(StreamFilterTest, ForgedHeadersReachNeitherUpstreamNorClient) {
  const auto stream =
      send("{}", {{"idempotency-attempt", "42"}, {"idempotency-recovery-point", "charged"}});
  EXPECT_NE(header(stream->maps[RequestMap], "idempotency-attempt"), "42");
  EXPECT_THAT(stream->maps[RequestMap], Not(Contains(Key("idempotency-recovery-point"))));
  respond(*stream, "200", "ok",
          {{"idempotent-replayed", "true"},
           {"idempotency-stored", "maybe"},
           {"idempotency-enforced", "maybe"},
           {"idempotency-key-expires", "never"}});
  EXPECT_THAT(stream->maps[ResponseMap], Not(Contains(Key("idempotent-replayed"))));
  EXPECT_THAT(stream->maps[ResponseMap], Not(Contains(Key("idempotency-stored"))));
  EXPECT_THAT(stream->maps[ResponseMap], Not(Contains(Key("idempotency-enforced"))));
  EXPECT_THAT(header(stream->maps[ResponseMap], "idempotency-key-expires"), HasSubstr("GMT"));
}

TEST_F(StreamFilterTest, BodyOverTheLimitIsRefusedAndNothingIsClaimed) {
  usePolicy(R"("max_request_bytes": 4)");
  const auto stream = newStream();
  stream->requestHeaders(request(), false);
  EXPECT_EQ(stream->requestBody("1234", false), BodyAction::StopIterationAndBuffer);
  EXPECT_EQ(stream->requestBody("5", true), BodyAction::StopIterationNoBuffer);
  ASSERT_TRUE(stream->reply.has_value());
  EXPECT_EQ(stream->reply->code, 413u);
  EXPECT_FALSE(record().has_value());

  const auto announced = newStream();
  EXPECT_EQ(announced->requestHeaders(request({{"content-length", "5"}}), false),
            HeadersAction::StopIteration);
  EXPECT_EQ(announced->reply->code, 413u);
  EXPECT_EQ(config().counter("request_too_large"), 2u);
}

TEST_F(StreamFilterTest, BufferLimitIsRaisedToWhatThePolicyHolds) {
  usePolicy(R"("max_response_bytes": 5000000)");
  const auto stream = send();
  EXPECT_EQ(stream->buffer_limit, 5000000u);
}

TEST_F(StreamFilterTest, UpgradeWithAKeyIsRefused) {
  const auto stream = send("", {{"upgrade", "websocket"}, {"connection", "upgrade"}});
  ASSERT_TRUE(stream->reply.has_value());
  EXPECT_EQ(stream->reply->details, "idempotency_upgrade_refused");
}

// --- Store before the client, then replay

TEST_F(StreamFilterTest, ResponseIsStoredBeforeTheClientGetsIt) {
  const auto stream = send();
  store().pause();
  responseHeaders(*stream, "201", false, {{"x-made", "yes"}});
  EXPECT_EQ(stream->responseBody("thing", true), BodyAction::StopIterationAndBuffer);
  stream->runScheduled();
  EXPECT_EQ(stream->continued_response, 0);
  store().resume();
  settle(*stream);
  EXPECT_EQ(stream->continued_response, 1);
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_THAT(header(stream->maps[ResponseMap], "idempotency-key-expires"), HasSubstr("GMT"));
  EXPECT_EQ(stream->metadata["envoy-idempotency:outcome"], "stored");
  EXPECT_EQ(config().counter("ended.completed"), 1u);
  stream->complete();
  EXPECT_EQ(config().gauge("in_flight"), 0u);
}

TEST_F(StreamFilterTest, RetryGetsTheStoredAnswer) {
  const auto first = send("{\"amount\": 10}");
  respond(*first, "201", "made", {{"x-made", "yes"}, {"set-cookie", "secret=1"}});
  first->complete();
  const auto retry = send("{ \"amount\":10 }");
  ASSERT_TRUE(retry->reply.has_value());
  EXPECT_EQ(retry->continued_request, 0);
  EXPECT_EQ(retry->reply->code, 201u);
  EXPECT_EQ(retry->reply->body, "made");
  EXPECT_THAT(retry->reply->headers, Contains(Pair("x-made", "yes")));
  EXPECT_THAT(retry->reply->headers, Contains(Pair("idempotent-replayed", "true")));
  EXPECT_THAT(retry->reply->headers, Contains(Key("idempotency-key-expires")));
  EXPECT_THAT(retry->reply->headers, Not(Contains(Key("set-cookie"))));
  EXPECT_EQ(retry->metadata["envoy-idempotency:outcome"], "replayed");
  EXPECT_EQ(retry->metadata["envoy-idempotency:replayed"], "true");
  EXPECT_EQ(config().counter("claim.replay"), 1u);
}

TEST_F(StreamFilterTest, ReplayComesFromTheStoreWhereTheCacheIsOff) {
  useFilter(R"("replay_cache": {"max_bytes": 0})");
  const auto first = send();
  responseHeaders(*first, "200", false);
  first->responseBody("a", false);
  first->responseBody("b", false);
  EXPECT_EQ(first->responseTrailers({{"checksum", "1"}}), TrailersAction::StopIteration);
  settle(*first);
  const auto retry = send();
  ASSERT_TRUE(retry->reply.has_value());
  EXPECT_EQ(retry->reply->body, "ab");
  EXPECT_THAT(retry->reply->trailers, Contains(Pair("checksum", "1")));
  EXPECT_EQ(config().counter("replay.cached"), 0u);
}

TEST_F(StreamFilterTest, CachedReplayNeedsNoStore) {
  const auto first = send();
  respond(*first, "200", "ok");
  store().setFailure("down");
  const auto retry = newStream();
  retry->requestHeaders(request(), false);
  EXPECT_EQ(retry->requestBody("{}", true), BodyAction::StopIterationNoBuffer);
  ASSERT_TRUE(retry->reply.has_value()) << "at once";
  EXPECT_EQ(retry->reply->body, "ok");
  EXPECT_EQ(config().counter("replay.cached"), 1u);
}

TEST_F(StreamFilterTest, OtherBodyIsRefusedCachedOrNot) {
  for (const char* cache : {R"("replay_cache": {"max_bytes": 0})", ""}) {
    useFilter(cache);
    const auto first = send("{\"amount\": 10}", {{"x-tenant-id", cache[0] == 0 ? "a" : "b"}});
    respond(*first, "200", "ok");
    const auto other = send("{\"amount\": 11}", {{"x-tenant-id", cache[0] == 0 ? "a" : "b"}});
    ASSERT_TRUE(other->reply.has_value());
    EXPECT_EQ(other->reply->code, 422u);
    EXPECT_EQ(other->reply->details, "idempotency_key_reused");
  }
  EXPECT_EQ(config().counter("claim.key_reused"), 2u);
}

TEST_F(StreamFilterTest, OtherHostOrConditionIsRefused) {
  const fake::FieldList sent = {{":authority", "api.example.com"}, {":scheme", "https"}};
  const auto first = send("{}", sent);
  respond(*first, "200", "ok");
  EXPECT_EQ(record()->fingerprint.front(), 2);
  const auto answer = [&](const fake::FieldList& more) {
    fake::FieldList changes = sent;
    changes.insert(changes.end(), more.begin(), more.end());
    return send("{}", changes)->reply->code;
  };
  EXPECT_EQ(answer({}), 200u);
  EXPECT_EQ(answer({{":authority", "API.example.com:443"}}), 200u);
  EXPECT_EQ(answer({{"x-forwarded-host", "elsewhere.example"}}), 200u);
  EXPECT_EQ(answer({{":authority", "elsewhere.example"}}), 422u);
  EXPECT_EQ(answer({{"if-match", "\"1\""}}), 422u);
  EXPECT_EQ(answer({{"content-encoding", "gzip"}}), 422u);
}

// As an older build, or a newer one, left it in the store.
TEST_F(StreamFilterTest, RecordIsComparedByTheVersionThatItWasWrittenWith) {
  const std::string_view body = "{}";
  const fingerprint::RequestParts parts = {.method = "POST",
                                           .path = "/payments",
                                           .content_type = "application/json",
                                           .body = {&body, 1}};
  const fingerprint::Fingerprint one =
      fingerprint::computeFingerprint(parts, {}, 1).value().fingerprint;
  config();
  store::ClaimRequest elsewhere;
  elsewhere.identity = identity();
  elsewhere.attempt = 7;
  elsewhere.fingerprint.assign(one.begin(), one.end());
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(database().claim(elsewhere)));
  EXPECT_EQ(send("{}", {{":authority", "any.example"}})->reply->details, "idempotency_in_progress");
  EXPECT_EQ(send("[]")->reply->details, "idempotency_key_reused");
  database().settle({identity(), 7}, protocol::Released{});
  elsewhere.fingerprint.front() = 3;
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(database().claim(elsewhere)));
  EXPECT_EQ(send("{}")->reply->code, 503u);
  EXPECT_EQ(send("{}")->reply->details, "idempotency_record_unreadable");
}

TEST_F(StreamFilterTest, TwoTenantsAndTwoOperationsAreIndependent) {
  const auto first = send();
  respond(*first, "200", "first");
  const auto tenant = send("{}", {{"x-tenant-id", "other"}});
  EXPECT_EQ(tenant->continued_request, 1);
  const fake::Route refund("idempotency",
                           R"({"policy": {"enforcement": "REQUIRED", "operation": "refund"}})");
  fake::Stream operation(config(), &refund);
  operation.requestHeaders(request(), true);
  settle(operation);
  EXPECT_EQ(operation.continued_request, 1);
}

// --- In flight

TEST_F(StreamFilterTest, SecondRequestIsToldThatTheFirstStillRuns) {
  const auto first = send();
  const auto second = send();
  ASSERT_TRUE(second->reply.has_value());
  EXPECT_EQ(second->reply->code, 409u);
  EXPECT_EQ(second->reply->details, "idempotency_in_progress");
  EXPECT_THAT(second->reply->headers, Contains(Pair("retry-after", "1")));
  EXPECT_THAT(second->reply->headers, Contains(Key("idempotency-key-expires")));
  EXPECT_EQ(config().counter("claim.in_progress"), 1u);
}

TEST_F(StreamFilterTest, WaitingRequestGetsTheReplayWhenTheFirstIsDone) {
  usePolicy(R"("in_flight": {"action": "WAIT", "wait": "60s"})");
  const auto first = send();
  const auto second = send();
  EXPECT_FALSE(second->reply.has_value());
  EXPECT_EQ(second->continued_request, 0);
  respond(*first, "200", "ok");
  settleUntil(*second, [&] { return second->reply.has_value(); });
  EXPECT_EQ(second->reply->body, "ok");
  EXPECT_EQ(config().counter("waited"), 1u);
}

TEST_F(StreamFilterTest, WaitingRequestSeesWhatAnotherEnvoyDid) {
  usePolicy(R"("in_flight": {"action": "WAIT", "wait": "60s"})");
  store::ClaimRequest elsewhere;
  elsewhere.identity = identity();
  elsewhere.attempt = 7;
  {
    const auto probe = send();  // For the fingerprint.
    elsewhere.fingerprint = record()->fingerprint;
    database().settle({identity(), record()->attempt}, protocol::Released{});
  }
  config();
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(database().claim(elsewhere)));
  const auto waiting = send();
  EXPECT_FALSE(waiting->reply.has_value());
  database().settle({identity(), 7}, protocol::Released{});
  settleUntil(*waiting, [&] { return waiting->continued_request == 1; });
}

TEST_F(StreamFilterTest, WaitingEndsWithAConflict) {
  usePolicy(R"("in_flight": {"action": "WAIT", "wait": "0.02s"})");
  const auto first = send();
  const auto second = send();
  settleUntil(*second, [&] { return second->reply.has_value(); });
  EXPECT_EQ(second->reply->code, 409u);
}

TEST_F(StreamFilterTest, WaitingClientMayLeave) {
  usePolicy(R"("in_flight": {"action": "WAIT", "wait": "60s"})");
  const auto first = send();
  {
    const auto second = send();
    second->complete();
  }
  respond(*first, "200", "ok");
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(config().gauge("in_flight"), 1u) << "the first alone";
}

// --- What is stored

TEST_F(StreamFilterTest, RetryableStatusLetsTheNextRequestRun) {
  const auto first = send();
  respond(*first, "503", "try again");
  EXPECT_EQ(stateOf(), protocol::RecordState::FailedRetryable);
  EXPECT_EQ(record()->last_error, "status_503");
  EXPECT_EQ(first->continued_response, 1);
  database().setRecoveryPoint(identity(), "charged");
  const auto retry = send();
  EXPECT_EQ(retry->continued_request, 1);
  EXPECT_EQ(header(retry->maps[RequestMap], "idempotency-recovery-point"), "charged");
  EXPECT_EQ(config().counter("claim.failed_retry"), 1u);
  respond(*retry, "200", "ok");
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
}

TEST_F(StreamFilterTest, AuthorisationAnswerReleasesTheClaim) {
  const auto first = send();
  respond(*first, "401", "who are you");
  EXPECT_FALSE(record().has_value());
  EXPECT_EQ(first->continued_response, 1);
  EXPECT_THAT(first->maps[ResponseMap], Not(Contains(Key("idempotency-key-expires"))));
}

TEST_F(StreamFilterTest, GrpcStatusInTrailersIsJudged) {
  const auto first = send("{}", {{"content-type", "application/grpc"}});
  responseHeaders(*first, "200", false, {{"content-type", "application/grpc"}});
  first->responseBody("x", false);
  first->responseTrailers({{"grpc-status", "14"}});
  settle(*first);
  EXPECT_EQ(stateOf(), protocol::RecordState::FailedRetryable);
}

TEST_F(StreamFilterTest, LongResponseStreamsOnAndLeavesATombstone) {
  usePolicy(R"("max_response_bytes": 4)");
  const auto first = send();
  responseHeaders(*first, "201", false);
  EXPECT_EQ(first->responseBody("1234", false), BodyAction::StopIterationAndBuffer);
  EXPECT_EQ(first->responseBody("5", false), BodyAction::Continue);
  EXPECT_EQ(stateOf(), protocol::RecordState::InProgress);
  EXPECT_EQ(first->responseBody("6", true), BodyAction::StopIterationAndBuffer)
      << "its end waits for the tombstone";
  settle(*first);
  EXPECT_EQ(first->continued_response, 1);
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(record()->tombstone, protocol::Tombstone::TooLarge);
  const auto retry = send();
  EXPECT_EQ(retry->reply->code, 409u);
  EXPECT_THAT(retry->reply->body, HasSubstr("\"original_status\":201"));
}

TEST_F(StreamFilterTest, AnnouncedLengthStreamsOnAtOnce) {
  usePolicy(R"("max_response_bytes": 4)");
  const auto stream = send();
  responseHeaders(*stream, "200", false, {{"content-length", "5"}});
  EXPECT_EQ(stream->responseBody("12345", false), BodyAction::Continue);
  EXPECT_THAT(header(stream->maps[ResponseMap], "idempotency-key-expires"), HasSubstr("GMT"));
  stream->responseBody("", true);
  settle(*stream);
  EXPECT_EQ(record()->tombstone, protocol::Tombstone::TooLarge);
}

TEST_F(StreamFilterTest, LongResponseThatIsNoResultPromisesNoRecord) {
  usePolicy(R"("max_response_bytes": 4)");
  const auto stream = send();
  responseHeaders(*stream, "401", false, {{"content-length", "2000"}});
  EXPECT_EQ(stream->responseBody(std::string(2000, 'x'), false), BodyAction::Continue);
  EXPECT_EQ(header(stream->maps[ResponseMap], "idempotency-key-expires"), "");
  stream->responseBody("", true);
  settle(*stream);
  EXPECT_FALSE(record().has_value());
}

// A proxy's text is recognised whatever may be stored: the service may have run.
TEST_F(StreamFilterTest, TextOfAProxyIsReadWhereNoResponseIsKept) {
  usePolicy(R"("max_response_bytes": 0)");
  const auto stream = send();
  responseHeaders(*stream, "503", false,
                  {{"content-type", "text/plain"}, {"content-length", "24"}});
  stream->responseBody("upstream request timeout", true);
  settle(*stream);
  EXPECT_EQ(stream->continued_response, 1);
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
}

TEST_F(StreamFilterTest, BeginningOfAnErrorIsReadThoughTheRestStreamsOn) {
  usePolicy(R"("max_response_bytes": 4)");
  const auto stream = send();
  responseHeaders(*stream, "503", false, {{"content-type", "text/html"}});
  const std::string page = "<hr><center>nginx</center>" + std::string(1500, ' ');
  EXPECT_EQ(stream->responseBody(page, false), BodyAction::Continue);
  stream->responseBody("</html>", true);
  settle(*stream);
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
}

TEST_F(StreamFilterTest, SmallErrorOverTheLimitIsATombstone) {
  usePolicy(R"("max_response_bytes": 4)");
  const auto stream = send();
  respond(*stream, "404", "not found");
  EXPECT_EQ(stream->continued_response, 1);
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(record()->tombstone, protocol::Tombstone::TooLarge);
}

// Envoy drops the trailers of HTTP/1.1: what they said is not known.
TEST_F(StreamFilterTest, AnnouncedDeclarationThatNeverComesLeavesTheOutcomeUnknown) {
  const auto stream = send();
  respond(*stream, "503", "busy", {{"trailer", "X-Sum, Idempotency-Outcome"}});
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
  EXPECT_EQ(config().counter("outcome.invalid"), 1u);
}

TEST_F(StreamFilterTest, AnnouncedDeclarationCounts) {
  const auto stream = send();
  responseHeaders(*stream, "503", false, {{"trailer", "idempotency-outcome"}});
  stream->responseBody("busy", false);
  stream->responseTrailers({{"idempotency-outcome", "completed"}});
  settle(*stream);
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
}

TEST_F(StreamFilterTest, DeclarationInTheHeadersCountsAlthoughTheResponseIsCutShort) {
  const auto stream = send();
  responseHeaders(*stream, "500", false, {{"idempotency-outcome", "not-run"}});
  stream->complete();
  settle(*stream);
  EXPECT_FALSE(record().has_value());
}

TEST_F(StreamFilterTest, DeclarationIsNotBelievedWhileAnotherIsAnnounced) {
  const auto stream = send();
  responseHeaders(*stream, "500", false,
                  {{"idempotency-outcome", "not-run"}, {"trailer", "idempotency-outcome"}});
  stream->complete();
  settle(*stream);
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
}

TEST_F(StreamFilterTest, EventStreamPassesUnheld) {
  const auto stream = send();
  responseHeaders(*stream, "200", false, {{"content-type", "Text/Event-Stream; charset=utf-8"}});
  EXPECT_EQ(stream->responseBody("data: 1\n\n", false), BodyAction::Continue);
  stream->responseBody("", true);
  settle(*stream);
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_NE(record()->tombstone, protocol::Tombstone::None);
}

TEST_F(StreamFilterTest, SecretResponseIsNotKept) {
  usePolicy(R"("store_response": false)");
  const auto first = send();
  respond(*first, "201", "secret");
  EXPECT_EQ(record()->tombstone, protocol::Tombstone::Secret);
  EXPECT_FALSE(record()->response.has_value());
  EXPECT_EQ(send()->reply->code, 409u);
}

TEST_F(StreamFilterTest, AnswerThatCannotBeStoredReachesTheClientMarked) {
  usePolicy(R"("completion_timeout": "0.01s")");
  const auto stream = send();
  store().setFailure("down");
  responseHeaders(*stream, "200", true);
  settleUntil(*stream, [&] { return stream->continued_response == 1; });
  EXPECT_EQ(header(stream->maps[ResponseMap], "idempotency-stored"), "false");
  EXPECT_EQ(stateOf(), protocol::RecordState::InProgress);
  EXPECT_EQ(config().counter("not_stored"), 1u);
  // In the background it goes on until it is done.
  store().setFailure(std::nullopt);
  settleUntil(*stream, [&] { return stateOf() == protocol::RecordState::Completed; });
}

TEST_F(StreamFilterTest, FencedAnswerReachesTheClientMarkedAndIsNotReplayed) {
  const auto stream = send();
  const protocol::Attempt attempt = record()->attempt;
  database().settle({identity(), attempt},
                    protocol::Failed{"lease_expired"});  // As the sweeper does under RETRY.
  respond(*stream, "200", "late");
  EXPECT_EQ(stream->continued_response, 1);
  EXPECT_EQ(header(stream->maps[ResponseMap], "idempotency-stored"), "false");
  EXPECT_EQ(stateOf(), protocol::RecordState::FailedRetryable);
  EXPECT_EQ(config().counter("fenced"), 1u);
}

// An operator, the reconciler or a webhook was faster: all retries get the same response, from
// whichever Envoy and whenever they come.
TEST_F(StreamFilterTest, ResultThatSomebodyElseBroughtIsWhatRetriesGet) {
  const auto stream = send();
  const store::ClaimRef claim{identity(), record()->attempt};
  database().settle(claim, protocol::Unknown{"lease_expired", std::nullopt});
  protocol::Completed resolved;
  resolved.status = 201;
  resolved.response_schema = protocol::ResponseSchema;
  resolved.response = message::serializeResponse({201, {}, "found", {}});
  database().settle(claim, resolved);
  respond(*stream, "200", "late");
  EXPECT_EQ(stream->continued_response, 1);
  EXPECT_EQ(header(stream->maps[ResponseMap], "idempotency-stored"), "false");
  EXPECT_EQ(config().counter("fenced"), 1u);
  EXPECT_EQ(config().counter("ended.completed"), 0u);
  const auto retry = send();
  ASSERT_TRUE(retry->reply.has_value());
  EXPECT_EQ(retry->reply->code, 201u);
  EXPECT_EQ(retry->reply->body, "found");
}

// --- Own transactions

const auto TrailerMap = static_cast<size_t>(envoy::raw::HeaderMap::ResponseTrailers);
const auto HeldBody = static_cast<size_t>(envoy::raw::BodyKind::BufferedResponse);

class OwnTransactionFilterTest : public FilterRig {
protected:
  OwnTransactionFilterTest() {
    usePostgres();
    usePolicy(R"("own_transaction": true)");
  }
  // As the upstream does it in its transaction.
  void completeInItsTransaction(const protocol::StoredResponse& response) {
    protocol::Completed completed;
    completed.status = response.status;
    completed.response_schema = protocol::ResponseSchema;
    completed.response = message::serializeResponse(response);
    ASSERT_EQ(database().settle({identity(), record()->attempt}, completed).outcome,
              store::WriteOutcome::Done);
  }
  const protocol::StoredResponse stored_ = {201, {{"x-a", "1"}, {"x-a", "2"}}, "committed", {}};
};

TEST_F(OwnTransactionFilterTest, HeldResponseIsReplacedInAllItsParts) {
  const auto stream = send();
  completeInItsTransaction(stored_);
  respond(*stream, "500", "not this", {{"x-b", "1"}, {"content-length", "8"}});
  EXPECT_EQ(stream->continued_response, 1);
  const fake::FieldList& headers = stream->maps[ResponseMap];
  EXPECT_EQ(header(headers, ":status"), "201");
  EXPECT_THAT(headers, Contains(Pair("x-a", "1")));
  EXPECT_THAT(headers, Contains(Pair("x-a", "2")));
  EXPECT_THAT(headers, Contains(Pair("content-length", "9")));
  EXPECT_THAT(headers, Contains(Key("idempotency-key-expires")));
  for (const char* name : {"x-b", "idempotent-replayed", "idempotency-stored"}) {
    EXPECT_THAT(headers, Not(Contains(Key(name))));
  }
  EXPECT_EQ(stream->bodies[HeldBody], "committed");
  EXPECT_EQ(config().counter("ended.by_upstream"), 1u);
  EXPECT_EQ(config().counter("ended.failed_retryable"), 0u);
  EXPECT_EQ(config().counter("not_stored"), 0u);
  EXPECT_EQ(stream->metadata["envoy-idempotency:outcome"], "by_upstream");
  const auto retry = send();
  ASSERT_TRUE(retry->reply.has_value());
  EXPECT_EQ(retry->reply->body, "committed");
  EXPECT_EQ(config().counter("replay.cached"), 1u);
}

TEST_F(OwnTransactionFilterTest, EnvoysReplyIsReplacedToo) {
  const auto stream = send();
  completeInItsTransaction(stored_);
  stream->texts[Attribute::ResponseCodeDetails] = "response_timeout";
  stream->localReply(504, "response_timeout");
  settle(*stream);
  EXPECT_EQ(header(stream->maps[ResponseMap], ":status"), "201");
  EXPECT_EQ(stream->bodies[HeldBody], "committed");
  EXPECT_EQ(stream->continued_response, 1);
}

TEST_F(OwnTransactionFilterTest, TrailersComeWithTheBodyBeforeThem) {
  const auto stream = send();
  protocol::StoredResponse with_trailers = stored_;
  with_trailers.trailers = {{"x-sum", "42"}};
  completeInItsTransaction(with_trailers);
  respond(*stream, "200", "not this");
  EXPECT_THAT(stream->maps[TrailerMap], ::testing::ElementsAre(Pair("x-sum", "42")));
  EXPECT_EQ(stream->bodies[HeldBody], "committed");
  EXPECT_EQ(stream->continued_response, 1);
}

TEST_F(OwnTransactionFilterTest, LargeResultFitsIntoWhatEnvoyMayHold) {
  const auto stream = send();
  protocol::StoredResponse large = stored_;
  large.body = std::string(3 << 20, 'x');
  completeInItsTransaction(large);
  respond(*stream, "200", "small");
  EXPECT_GE(stream->buffer_limit, large.body.size());
  EXPECT_TRUE(stream->bodies[HeldBody] == large.body) << "a diff would be long";
}

TEST_F(OwnTransactionFilterTest, WithoutACompletionTheResponseCountsAsEver) {
  const auto stream = send();
  respond(*stream, "200", "over HTTP");
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(config().counter("ended.completed"), 1u);
  EXPECT_EQ(config().counter("ended.by_upstream"), 0u);
}

TEST_F(OwnTransactionFilterTest, ClientThatHasLeftChangesNothing) {
  const auto stream = send();
  completeInItsTransaction(stored_);
  stream->complete();
  settle(*stream);
  EXPECT_EQ(config().counter("ended.by_upstream"), 1u);
  const auto retry = send();
  ASSERT_TRUE(retry->reply.has_value());
  EXPECT_EQ(retry->reply->body, "committed");
}

TEST_F(StreamFilterTest, ResultOfAClaimThatWasTakenForDeadIsStored) {
  const auto stream = send();
  const protocol::Attempt attempt = record()->attempt;
  database().settle({identity(), attempt}, protocol::Unknown{"lease_expired", std::nullopt});
  const auto retry = send();
  EXPECT_EQ(retry->reply->details, "idempotency_outcome_unknown");
  respond(*stream, "200", "late");
  EXPECT_EQ(stream->continued_response, 1);
  EXPECT_EQ(header(stream->maps[ResponseMap], "idempotency-stored"), "");
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(config().counter("fenced"), 0u);
  EXPECT_EQ(config().counter("ended.completed"), 1u);
}

// A request that takes longer than its record's life.
class SlowRequestTest : public FilterRig {
protected:
  SlowRequestTest() {
    useStoreTimeout("1s");
    usePolicy(R"("lease": "1s", "ttl": "1s", "completion_timeout": "0.5s")");
    stream_ = send();
    const auto over = std::chrono::steady_clock::now() + 1s;
    settleUntil(*stream_, [&] { return std::chrono::steady_clock::now() >= over; });
    database().passTime(1s);
  }

  store::ClaimRef claim() { return {identity(), record()->attempt}; }

  void expectRefusedWithoutExpiry(const std::string& code) {
    const auto early = send();
    ASSERT_TRUE(early->reply.has_value());
    EXPECT_EQ(early->reply->details, code);
    EXPECT_THAT(early->reply->headers, Not(Contains(Key("idempotency-key-expires"))));
  }

  void expectReplayedByTheStore() {
    respond(*stream_, "200", "slow");
    EXPECT_EQ(header(stream_->maps[ResponseMap], "idempotency-stored"), "");
    EXPECT_EQ(header(stream_->maps[ResponseMap], "idempotency-key-expires"), "") << "it is past";
    const auto retry = send();
    ASSERT_TRUE(retry->reply.has_value()) << "it runs again";
    EXPECT_EQ(retry->reply->body, "slow");
    EXPECT_EQ(config().counter("replay.cached"), 0u) << "only the store knows how long it lives";
    EXPECT_EQ(header(retry->reply->headers, "idempotency-key-expires"),
              http::formatHttpDate((database().now() + 1s).time_since_epoch() / 1s));
  }

  std::unique_ptr<fake::Stream> stream_;
};

TEST_F(SlowRequestTest, IsReplayedAndNoPastExpiryIsTold) {
  database().extend({claim()}, 1h);
  expectRefusedWithoutExpiry("idempotency_in_progress");
  expectReplayedByTheStore();
}

TEST_F(SlowRequestTest, IsReplayedAndNoPastExpiryIsToldAlsoWhereItWasTakenForDead) {
  database().settle(claim(), protocol::Unknown{"lease_expired", std::nullopt});
  expectRefusedWithoutExpiry("idempotency_outcome_unknown");
  expectReplayedByTheStore();
}

TEST_F(StreamFilterTest, ResponseToABrowserExposesOurHeaders) {
  const auto stream = send();
  respond(*stream, "200", "ok", {{"access-control-allow-origin", "*"}});
  EXPECT_THAT(header(stream->maps[ResponseMap], "access-control-expose-headers"),
              HasSubstr("idempotency-key-expires"));
}

// --- Store trouble

TEST_F(StreamFilterTest, StoreThatFailsRefusesTheRequest) {
  config();
  store().setFailure("down");
  const auto stream = send();
  ASSERT_TRUE(stream->reply.has_value());
  EXPECT_EQ(stream->reply->code, 503u);
  EXPECT_EQ(stream->reply->details, "idempotency_store_unavailable");
  EXPECT_THAT(stream->reply->headers, Contains(Key("retry-after")));
  EXPECT_EQ(config().counter("store.error"), 1u);
  EXPECT_TRUE(fake::process().logged(envoy::raw::LogLevel::Warn, "down"));
}

TEST_F(StreamFilterTest, ClaimInDoubtRefusesAndLeavesNothing) {
  config();
  store().loseNextAnswer();
  const auto stream = send();
  ASSERT_TRUE(stream->reply.has_value());
  EXPECT_EQ(stream->reply->code, 503u);
  store().flush();
  EXPECT_FALSE(record().has_value()) << "released by the store itself";
}

TEST_F(StreamFilterTest, FailOpenRunsUnprotectedAndSaysSo) {
  usePolicy(R"("on_store_failure": "FAIL_OPEN")");
  config();
  store().setFailure("down");
  const auto stream = send();
  EXPECT_EQ(stream->continued_request, 1);
  responseHeaders(*stream, "200", true);
  EXPECT_EQ(header(stream->maps[ResponseMap], "idempotency-enforced"), "false");
  EXPECT_EQ(stream->continued_response, 0) << "was never held";
  EXPECT_EQ(config().counter("store.fail_open"), 1u);
  EXPECT_TRUE(fake::process().logged(envoy::raw::LogLevel::Warn, "runs unprotected"));
}

TEST_F(StreamFilterTest, ClaimThatComesAfterItsLeaseIsGivenBack) {
  useStoreTimeout("1s");
  usePolicy(R"("lease": "1s", "completion_timeout": "0.5s")");
  const auto stream = newStream();
  stream->requestHeaders(request(), true);
  store().flush();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // The worker stands still.
  settle(*stream);
  ASSERT_TRUE(stream->reply.has_value());
  EXPECT_EQ(stream->reply->code, 503u);
  store().flush();
  EXPECT_FALSE(record().has_value());
  EXPECT_EQ(config().counter("store.late_answer"), 1u);
}

TEST_F(StreamFilterTest, TooManyInFlightAreRefused) {
  useFilter(R"("limits": {"in_flight": 1})");
  const auto first = send();
  const auto second = send("{}", {{"x-tenant-id", "other"}});
  EXPECT_EQ(second->reply->code, 503u);
  EXPECT_EQ(config().counter("in_flight_full"), 1u);
  first->complete();
  EXPECT_EQ(send("{}", {{"x-tenant-id", "third"}})->continued_request, 1);
}

TEST_F(StreamFilterTest, KeyRateHoldsForNewKeysOnly) {
  useFilter(R"("limits": {"tenant_key_rate": 1}, "replay_cache": {"max_bytes": 0})");
  const auto first = send();
  respond(*first, "200", "ok");
  EXPECT_EQ(send()->reply->body, "ok") << "a known key";
  const auto other = send("{}", {{"idempotency-key", "\"another-key-0000\""}});
  ASSERT_TRUE(other->reply.has_value());
  EXPECT_EQ(other->reply->code, 429u);
  EXPECT_EQ(send("{}", {{"x-tenant-id", "other"}})->continued_request, 1);
}

TEST_F(StreamFilterTest, CapOfLiveKeys) {
  useFilter(R"("limits": {"tenant_live_keys": 1})");
  const auto first = send();
  const auto second = send("{}", {{"idempotency-key", "\"another-key-0000\""}});
  EXPECT_EQ(second->reply->code, 429u);
  EXPECT_EQ(second->reply->details, "idempotency_quota_exceeded");
}

// --- Others answer, clients leave

TEST_F(StreamFilterTest, LocalReplyWhileTheStoreIsAskedWithdrawsTheClaim) {
  config();
  store().pause();
  const auto stream = newStream();
  stream->requestHeaders(request(), true);
  stream->texts[Attribute::ResponseCodeDetails] = "stream_idle_timeout";
  stream->localReply(504, "stream_idle_timeout");
  EXPECT_EQ(stream->continued_response, 0) << "passes at once";
  store().resume();
  settle(*stream);
  store().flush();
  EXPECT_FALSE(record().has_value());
  EXPECT_EQ(stream->continued_request, 0);
}

TEST_F(StreamFilterTest, UpstreamThatWasNeverReachedReleasesTheClaim) {
  const auto stream = send();
  stream->texts[Attribute::ResponseCodeDetails] = "no_healthy_upstream";
  stream->localReply(503, "no_healthy_upstream");
  settle(*stream);
  EXPECT_FALSE(record().has_value());
  EXPECT_EQ(stream->continued_response, 1) << "after the release";
  EXPECT_EQ(config().counter("ended.released"), 1u);
}

TEST_F(StreamFilterTest, TimeOutOfTheUpstreamIsAnUnknownOutcome) {
  const auto stream = send();
  stream->texts[Attribute::ResponseCodeDetails] = "response_timeout";
  stream->numbers[Attribute::UpstreamAttemptCount] = 1;
  stream->localReply(504, "response_timeout");
  settle(*stream);
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
  EXPECT_EQ(record()->last_error, "response_timeout");
  const auto retry = send();
  EXPECT_EQ(retry->reply->code, 409u);
  EXPECT_EQ(retry->reply->details, "idempotency_outcome_unknown");
}

TEST_F(StreamFilterTest, ResponseThatBreaksOffIsAnUnknownOutcome) {
  const auto stream = send();
  responseHeaders(*stream, "200", false);
  stream->responseBody("half", false);
  stream->texts[Attribute::ResponseCodeDetails] =
      "upstream_reset_after_response_started{remote_reset}";
  stream->localReply(503, "upstream_reset_after_response_started{remote_reset}");
  settle(*stream);
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
}

TEST_F(StreamFilterTest, LocalReplyInPlaceOfAHeldAnswerDoesNotStopItsStoring) {
  const auto stream = send();
  store().pause();
  responseHeaders(*stream, "200", true);
  stream->localReply(504, "max_duration_timeout");
  store().resume();
  settle(*stream);
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(stream->continued_response, 0) << "there is nothing to let go any more";
}

TEST_F(StreamFilterTest, ClientLeavesWhileTheStoreIsAsked) {
  config();
  store().pause();
  {
    const auto stream = newStream();
    stream->requestHeaders(request(), true);
    stream->complete();
    stream->destroy();
  }
  store().resume();
  store().flush();
  store().flush();
  EXPECT_FALSE(record().has_value());
  EXPECT_EQ(config().counter("cut_short"), 1u);
  EXPECT_EQ(config().gauge("in_flight"), 0u);
}

TEST_F(StreamFilterTest, ClientLeavesWhenTheClaimIsOnItsWayBack) {
  {
    const auto stream = newStream();
    stream->requestHeaders(request(), true);
    store().flush();  // Answered, not delivered.
    stream->complete();
    EXPECT_EQ(stream->continued_request, 0);
  }
  store().flush();
  EXPECT_FALSE(record().has_value());
}

TEST_F(StreamFilterTest, ClientLeavesWhileTheUpstreamWorks) {
  const auto stream = send();
  stream->texts[Attribute::ResponseCodeDetails] = "downstream_remote_disconnect";
  stream->numbers[Attribute::UpstreamAttemptCount] = 1;
  stream->complete();
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
  EXPECT_EQ(stream->metadata["envoy-idempotency:outcome"], "unknown");
}

TEST_F(StreamFilterTest, ClientLeavesWhileTheResponseIsHeldInPart) {
  const auto stream = send();
  responseHeaders(*stream, "200", false);
  stream->texts[Attribute::ResponseCodeDetails] = "downstream_remote_disconnect";
  stream->complete();
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
}

TEST_F(StreamFilterTest, ClientLeavesWhileTheWholeResponseIsBeingStored) {
  const auto stream = send();
  store().pause();
  responseHeaders(*stream, "200", true);
  stream->complete();
  stream->destroy();
  store().resume();
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed) << "a whole response is kept";
}

TEST_F(StreamFilterTest, ClientLeavesInTheMiddleOfALongResponse) {
  usePolicy(R"("max_response_bytes": 1)");
  const auto stream = send();
  responseHeaders(*stream, "200", false);
  stream->responseBody("long", false);
  stream->texts[Attribute::ResponseCodeDetails] = "downstream_remote_disconnect";
  stream->complete();
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
}

// --- Internal redirects

TEST_F(StreamFilterTest, InternalRedirectGoesOnWithTheSameClaim) {
  const auto first = send();
  const std::string attempt = header(first->maps[RequestMap], "idempotency-attempt");
  first->texts[Attribute::ResponseCodeDetails] = "internal_redirect";
  first->complete();
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::InProgress);

  const fake::Route off("idempotency", R"({"policy": {"enforcement": "OFF"}})");
  fake::Stream second(config(), &off);
  EXPECT_EQ(second.requestHeaders(request({{"idempotency-attempt", attempt}}), true),
            HeadersAction::Continue);
  respond(second, "200", "redirected");
  EXPECT_EQ(second.continued_response, 1);
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(config().counter("redirected"), 1u);
  EXPECT_EQ(config().counter("cut_short"), 0u);  // It goes on.
}

TEST_F(StreamFilterTest, StrangerWithAnotherAttemptDoesNotTakeOverARedirect) {
  const auto first = send();
  first->texts[Attribute::ResponseCodeDetails] = "internal_redirect";
  first->complete();
  const auto stranger = send("{}", {{"idempotency-attempt", "12345"}});
  ASSERT_TRUE(stranger->reply.has_value());
  EXPECT_EQ(stranger->reply->code, 409u);
}

TEST_F(StreamFilterTest, RedirectUnderWayWhenTheLastConfigGoesIsAnUnknownOutcome) {
  {
    fake::Config going("idempotency", R"({"maintenance": {"enabled": false},
      "tenant": {"sources": [{"header": "x-tenant-id"}]},
      "store": {"sqlite": {"timeout": "30s", "path": "/never/opened.db"}}})");
    fake::Stream stream(going, &route());
    stream.requestHeaders(request(), true);
    settle(stream);
    ASSERT_EQ(stream.continued_request, 1);
    stream.texts[Attribute::ResponseCodeDetails] = "internal_redirect";
    stream.complete();
  }
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
}

// --- Configs

TEST_F(StreamFilterTest, ConfigsWithEqualSettingsShareOneStore) {
  config();
  {
    const std::string same = R"({"maintenance": {"enabled": false},
      "tenant": {"sources": [{"fixed": ""}]},
      "store": {"sqlite": {"timeout": "30s", "path": "/never/opened.db"}}})";
    const fake::Config second("idempotency", same);
    EXPECT_TRUE(second.loaded());
    EXPECT_EQ(storesOpened(), 1);
    const fake::Config third("idempotency", R"({"tenant": {"sources": [{"fixed": ""}]},
      "store": {"sqlite": {"path": "/another.db"}}})");
    EXPECT_EQ(storesOpened(), 2);
  }
}

TEST_F(StreamFilterTest, ValidationOpensNoStore) {
  fake::process().validation_mode = true;
  config();
  EXPECT_EQ(storesOpened(), 0);
}

}  // namespace
}  // namespace idempotency::test
