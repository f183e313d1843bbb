#include "source/protocol/outcome.h"

#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace idempotency::protocol {
namespace {

using enum EndingKind;

constexpr uint64_t bit(int n) {
  return uint64_t{1} << n;
}

// A request that went on to the upstream, of which no answer came.
Observation sent(std::string_view details, uint64_t attempts = 1, uint64_t flags = 0) {
  return {.details = details, .flags = flags, .attempts = attempts};
}

struct Row {
  std::string name;
  Observation seen;
  EndingKind want;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.name;
}

class OutcomeRowTest : public testing::TestWithParam<Row> {};

TEST_P(OutcomeRowTest, GivesTheDesignsRow) {
  EXPECT_EQ(judgeOutcome(Policy{}, GetParam().seen).kind, GetParam().want);
}

#define EARLY "upstream_reset_before_response_started"
#define LATE "upstream_reset_after_response_started"

INSTANTIATE_TEST_SUITE_P(
    NotSent, OutcomeRowTest,
    testing::Values(
        Row{"no route", sent("route_not_found", 0, bit(8)), Released},
        Row{"no route configuration", sent("route_configuration_not_found", 0), Released},
        Row{"no cluster", sent("cluster_not_found", 0, bit(24)), Released},
        Row{"direct response", sent("direct_response", 0), Released},
        Row{"no healthy host", sent("no_healthy_upstream", 1, bit(1)), Released},
        Row{"no healthy host, not counted", sent("no_healthy_upstream", 0, bit(1)), Released},
        Row{"maintenance", sent("maintenance_mode", 0), Released},
        Row{"drop overload", sent("drop_overload", 0), Released},
        Row{"unconditional drop overload", sent("unconditional_drop_overload", 0), Released},
        Row{"strict headers", sent("request_headers_failed_strict_check", 0), Released},
        Row{"refused connection",
            sent(EARLY "{remote_connection_failure|delayed_connect_error:_Connection_refused}", 1,
                 bit(5)),
            Released},
        Row{"refused connection, no transport text", sent(EARLY "{remote_connection_failure}", 1),
            Released},
        Row{"refused connection, retry limit of none",
            sent(EARLY "{remote_connection_failure}", 1, bit(5) | bit(15)), Released},
        Row{"local connection failure", sent(EARLY "{local_connection_failure}", 1), Released},
        Row{"connect timeout", sent(EARLY "{connection_timeout}", 1, bit(5)), Released},
        Row{"circuit breaker", sent(EARLY "{overflow}", 1, bit(7)), Released},
        Row{"fault", sent("fault_filter_abort", 0), Released},
        Row{"rbac", sent("rbac_access_denied_matched_policy[none]", 0), Released},
        Row{"ext_authz", sent("ext_authz_denied", 0, bit(12)), Released},
        Row{"ext_authz error", sent("ext_authz_error", 0), Released},
        Row{"ext_authz invalid", sent("ext_authz_invalid", 0), Released},
        Row{"jwt", sent("jwt_authn_access_denied{Jwt_is_missing}", 0), Released},
        Row{"basic auth", sent("invalid_credential_for_basic_auth", 0), Released},
        Row{"api key", sent("unknown_api_key", 0), Released},
        Row{"csrf", sent("csrf_origin_mismatch", 0), Released},
        Row{"rate limit", sent("request_rate_limited", 0, bit(11)), Released},
        Row{"rate limit error", sent("rate_limiter_error", 0), Released},
        Row{"local rate limit", sent("local_rate_limited", 0), Released},
        Row{"adaptive concurrency", sent("reached_concurrency_limit", 0), Released},
        Row{"admission control", sent("denied_by_admission_control", 0), Released},
        Row{"request too large for a later filter", sent("request_payload_too_large", 0), Released},
        Row{"transcoder", sent("early_grpc_json_transcode_failure{x}", 0), Released},
        Row{"dns", sent("dns_resolution_failure{x}", 0), Released}));

INSTANTIATE_TEST_SUITE_P(
    Unknown, OutcomeRowTest,
    testing::Values(
        Row{"route timeout", sent("response_timeout", 1, bit(2)), Unknown},
        Row{"per try timeout", sent("upstream_per_try_timeout", 1, bit(2)), Unknown},
        Row{"per try idle timeout", sent("upstream_per_try_idle_timeout", 1), Unknown},
        Row{"upstream max duration", sent("upstream_max_stream_duration_reached", 1), Unknown},
        Row{"connection ended", sent(EARLY "{connection_termination}", 1, bit(6)), Unknown},
        Row{"remote reset", sent(EARLY "{remote_reset}", 1, bit(4)), Unknown},
        // HAProxy refuses streams whose request its server has had.
        Row{"refused stream", sent(EARLY "{remote_refused_stream_reset}", 1, bit(4)), Unknown},
        Row{"refused stream, no flag", sent(EARLY "{remote_refused_stream_reset}", 1), Unknown},
        Row{"local reset", sent(EARLY "{local_reset}", 1, bit(3)), Unknown},
        Row{"protocol error", sent(EARLY "{protocol_error}", 1, bit(23)), Unknown},
        Row{"reset of a new kind", sent(EARLY "{something_new}", 1), Unknown},
        Row{"reset without a reason", sent(EARLY, 1), Unknown},
        Row{"reset with an empty reason", sent(EARLY "{}", 1), Unknown},
        Row{"reset with an open brace", sent(EARLY "{overflow", 1), Unknown},
        Row{"reason only in the transport text", sent(EARLY "{remote_reset|overflow}", 1), Unknown},
        Row{"reason as a prefix", sent(EARLY "{overflowing}", 1), Unknown},
        Row{"name as a prefix", sent("route_not_found_at_all", 0), Unknown},
        Row{"name inside another", sent("x_route_not_found", 0), Unknown},
        Row{"max duration", sent("max_duration_timeout", 1), Unknown},
        Row{"idle timeout", sent("stream_idle_timeout", 1, bit(16)), Unknown},
        Row{"overall timeout", sent("request_overall_timeout", 1), Unknown},
        Row{"client gone", sent("downstream_remote_disconnect", 1, bit(14)), Unknown},
        Row{"client gone, no attempt counted", sent("downstream_remote_disconnect", 0), Unknown},
        Row{"client gone, HTTP/2", sent("http2.remote_reset", 1), Unknown},
        Row{"Envoy stops",
            sent("downstream_local_disconnect(purging_socket_that_have_not_progressed_to_"
                 "connections)",
                 1),
            Unknown},
        Row{"nothing told", sent("", 1), Unknown},
        Row{"nothing told, no attempt", sent("", 0), Unknown},
        Row{"something new", sent("never_seen_before", 0), Unknown},
        Row{"late reset before our headers hook", sent(LATE "{remote_reset}", 1), Unknown},
        Row{"too large before our headers hook", sent("response_payload_too_large", 1), Unknown},

        // Retries: the details tell of the last attempt alone.
        Row{"refused after a retry", sent(EARLY "{remote_connection_failure}", 2, bit(5)), Unknown},
        Row{"overflow after a retry", sent(EARLY "{overflow}", 2, bit(7)), Unknown},
        Row{"refused stream after a retry", sent(EARLY "{remote_refused_stream_reset}", 3),
            Unknown},
        Row{"no healthy host after a retry", sent("no_healthy_upstream", 2), Unknown},
        Row{"no route after a retry", sent("route_not_found", 2), Unknown},
        // A filter's denial on the way back: the upstream was called.
        Row{"rbac after an attempt", sent("rbac_access_denied_matched_policy[x]", 1), Unknown},
        Row{"fault after an attempt", sent("fault_filter_abort", 1), Unknown},
        Row{"rate limit after an attempt", sent("request_rate_limited", 1), Unknown},

        // Flags that contradict the details.
        Row{"refused, yet timed out", sent(EARLY "{remote_connection_failure}", 1, bit(2)),
            Unknown},
        Row{"refused, yet reset", sent(EARLY "{remote_connection_failure}", 1, bit(4)), Unknown},
        Row{"no route, yet terminated", sent("route_not_found", 0, bit(6)), Unknown},
        Row{"overflow, yet a protocol error", sent(EARLY "{overflow}", 1, bit(23)), Unknown}));

Observation answered(bool complete, std::string_view details, uint64_t attempts = 1) {
  return {.via_upstream = true,
          .complete = complete,
          .details = details,
          .attempts = attempts,
          .status = 200,
          .judged_status = 200};
}

INSTANTIATE_TEST_SUITE_P(
    Response, OutcomeRowTest,
    testing::Values(
        Row{"whole", answered(true, "via_upstream"), Completed},
        Row{"whole, after a retry", answered(true, "via_upstream", 2), Completed},
        Row{"whole, client gone while it is stored", answered(true, "downstream_remote_disconnect"),
            Completed},
        Row{"whole, idle timeout while it is stored", answered(true, "stream_idle_timeout"),
            Completed},
        Row{"whole, max duration while it is stored", answered(true, "max_duration_timeout"),
            Completed},
        Row{"cut by Envoy's buffer limit", answered(false, "response_payload_too_large"),
            Completed},
        Row{"truncated", answered(false, LATE "{protocol_error}"), Unknown},
        Row{"reset", answered(false, LATE "{remote_reset}"), Unknown},
        Row{"client gone before the end", answered(false, "downstream_remote_disconnect"), Unknown},
        Row{"still coming", answered(false, "via_upstream"), Unknown},
        Row{"timeout before the end", answered(false, "response_timeout"), Unknown},
        Row{"never-sent words after the headers", answered(false, "route_not_found"), Unknown},
        Row{"redirect", sent("internal_redirect", 1), Redirected},
        Row{"redirect, not ours to follow", answered(true, "internal_redirect"), Completed}));

TEST(OutcomeTest, ZeroedEndingPromisesNothing) {
  EXPECT_EQ(AttemptEnding{}.kind, Unknown);
}

// --- Whole responses ---------------------------------------------------------------------------

Observation response(int status) {
  Observation seen = answered(true, "via_upstream");
  seen.status = status;
  seen.judged_status = status;
  return seen;
}

EndingKind endingOf(const Observation& seen, const Policy& policy = {}) {
  return judgeOutcome(policy, seen).kind;
}

Policy with(ServerErrors server_errors) {
  Policy policy;
  policy.server_errors = server_errors;
  policy.retryable_statuses = defaultRetryableStatuses(server_errors);
  return policy;
}

// The defaults as users read them: a service's 500 and 503 let the retry run, and so do 425 and
// 429; 408, 499 and every other 5xx are what gateways say when they do not know.
EndingKind promised(int status) {
  switch (status) {
    case 425:
    case 429:
    case 500:
    case 503:
      return Retryable;
    case 401:
    case 403:
    case 407:
      return Released;
    case 408:
    case 499:
      return Unknown;
    default:
      return status >= 500 && status < 600 ? Unknown : Completed;
  }
}

TEST(OutcomeTest, StatusesOfTheServiceByDefault) {
  for (int status = 200; status < 600; ++status) {
    EXPECT_EQ(endingOf(response(status)), promised(status)) << status;
  }
}

TEST(OutcomeTest, StrictPolicyNeverRunsAgainAfterAServerError) {
  const Policy strict = with(ServerErrors::Unknown);
  for (int status = 500; status < 600; ++status) {
    EXPECT_EQ(endingOf(response(status), strict), Unknown) << status;
    Observation refused = response(status);
    refused.proxy = ProxyEvidence::NotSent;
    EXPECT_EQ(endingOf(refused, strict), Unknown) << status;
  }
  EXPECT_EQ(endingOf(response(408), strict), Unknown);
  EXPECT_EQ(endingOf(response(429), strict), Retryable);
  EXPECT_EQ(endingOf(response(401), strict), Released);
  EXPECT_EQ(endingOf(response(402), strict), Completed);
}

TEST(OutcomeTest, KeepingPolicyStoresEveryServerError) {
  const Policy keep = with(ServerErrors::Keep);
  for (int status = 500; status < 600; ++status) {
    for (const auto proxy : {ProxyEvidence::None, ProxyEvidence::InDoubt, ProxyEvidence::NotSent}) {
      Observation seen = response(status);
      seen.proxy = proxy;
      seen.attempts = 2;
      EXPECT_EQ(endingOf(seen, keep), Completed) << status;
    }
  }
  EXPECT_EQ(endingOf(response(408), keep), Completed);
  EXPECT_EQ(endingOf(response(429), keep), Retryable);
}

TEST(OutcomeTest, ListsMayNameAnyStatus) {
  Policy policy;
  policy.retryable_statuses = {};
  policy.retryable_statuses.addRange(404, 404);
  policy.retryable_statuses.addRange(502, 502);
  policy.released_statuses = {};
  policy.released_statuses.addRange(409, 409);
  EXPECT_EQ(endingOf(response(404), policy), Retryable);
  EXPECT_EQ(endingOf(response(502), policy), Retryable);
  EXPECT_EQ(endingOf(response(409), policy), Released);
  EXPECT_EQ(endingOf(response(401), policy), Completed);
  EXPECT_EQ(endingOf(response(500), policy), Unknown);
}

TEST(OutcomeTest, GrpcStatusIsJudgedAndHttpStatusIsKept) {
  Observation seen = response(200);
  seen.judged_status = 503;
  EXPECT_EQ(endingOf(seen), Retryable);
  seen.judged_status = 504;
  EXPECT_EQ(endingOf(seen), Unknown);
  seen.judged_status = 404;
  EXPECT_EQ(endingOf(seen), Completed);
  seen.judged_status = 200;
  seen.grpc_status_missing = true;
  EXPECT_EQ(endingOf(seen), Unknown);
}

// --- What the upstream declares ----------------------------------------------------------------

TEST(OutcomeTest, DeclarationBeatsEveryTable) {
  struct {
    DeclaredOutcome declared;
    EndingKind want;
  } const rows[] = {
      {DeclaredOutcome::NotRun, Released},     {DeclaredOutcome::Retryable, Retryable},
      {DeclaredOutcome::Completed, Completed}, {DeclaredOutcome::Unknown, Unknown},
      {DeclaredOutcome::Invalid, Unknown},
  };
  for (const auto& row : rows) {
    for (const int status : {200, 401, 402, 408, 500, 502, 503}) {
      for (const ServerErrors choice :
           {ServerErrors::Retry, ServerErrors::Unknown, ServerErrors::Keep}) {
        Observation seen = response(status);
        seen.declared = row.declared;
        EXPECT_EQ(endingOf(seen, with(choice)), row.want) << status;
        seen.attempts = 3;
        seen.redirected = true;
        seen.proxy = ProxyEvidence::InDoubt;
        EXPECT_EQ(endingOf(seen, with(choice)), row.want) << status;
      }
    }
  }
}

TEST(OutcomeTest, DeclarationHoldsForAResponseThatIsCutShort) {
  Observation seen = response(200);
  seen.complete = false;
  seen.declared = DeclaredOutcome::NotRun;
  EXPECT_EQ(endingOf(seen), Released);
  seen.declared = DeclaredOutcome::Completed;
  const AttemptEnding ending = judgeOutcome(Policy{}, seen);
  EXPECT_EQ(ending.kind, Completed);
  EXPECT_NE(ending.tombstone, Tombstone::None);
}

// Without a response of the upstream there is nobody who declares.
TEST(OutcomeTest, DeclarationNeedsAResponse) {
  Observation seen = sent("response_timeout");
  seen.declared = DeclaredOutcome::NotRun;
  EXPECT_EQ(endingOf(seen), Unknown);
}

// --- The promise, for everything that can be seen -----------------------------------------------

constexpr std::string_view AllDetails[] = {
    "via_upstream",
    "route_not_found",
    "no_healthy_upstream",
    EARLY "{overflow}",
    "response_timeout",
    EARLY "{connection_termination}",
    "internal_redirect",
    "fault_filter_abort",
    "response_payload_too_large",
    "",
    "never_seen_before",
    EARLY "{remote_connection_failure}",
};

bool isFirstSend(const Observation& seen) {
  const bool by_proxy = seen.via_upstream && seen.proxy == ProxyEvidence::Retried;
  return seen.attempts <= 1 && !seen.redirected && !by_proxy;
}

// What lets another request run, in the words of docs/semantics.md: the upstream says so; our Envoy
// did not send the request; a proxy did not send it on; or the service itself answered with a
// status of the policy's lists. The last three only if the request was sent for the first time.
bool mayRunAgain(const Policy& policy, const Observation& seen) {
  if (seen.via_upstream && seen.declared != DeclaredOutcome::None) {
    return seen.declared == DeclaredOutcome::NotRun || seen.declared == DeclaredOutcome::Retryable;
  }
  if (!isFirstSend(seen)) {
    return false;
  }
  if (!seen.via_upstream) {
    return seen.details == "route_not_found" || seen.details == "no_healthy_upstream" ||
           seen.details == EARLY "{overflow}" ||
           seen.details == EARLY "{remote_connection_failure}" ||
           (seen.details == "fault_filter_abort" && seen.attempts == 0);
  }
  const bool whole = seen.complete || seen.details == "response_payload_too_large";
  if (!whole || seen.grpc_status_missing || seen.proxy == ProxyEvidence::InDoubt) {
    return false;
  }
  return seen.proxy == ProxyEvidence::NotSent ||
         policy.retryable_statuses.contains(seen.judged_status) ||
         policy.released_statuses.contains(seen.judged_status);
}

void checkPromise(const Policy& policy, const Observation& seen) {
  const EndingKind ending = endingOf(seen, policy);
  if (ending != Released && ending != Retryable) {
    return;
  }
  EXPECT_TRUE(mayRunAgain(policy, seen))
      << seen.details << " status " << seen.judged_status << " attempts " << seen.attempts
      << " proxy " << static_cast<int>(seen.proxy) << " redirected " << seen.redirected;
}

TEST(OutcomeTest, NothingElseLetsARequestRunAgain) {
  const Policy policies[] = {with(ServerErrors::Retry), with(ServerErrors::Unknown),
                             with(ServerErrors::Keep)};
  Observation seen;
  for (const Policy& policy : policies) {
    for (const std::string_view details : AllDetails) {
      for (int bits = 0; bits < 16; ++bits) {
        for (uint64_t attempts = 0; attempts <= 2; ++attempts) {
          for (int declared = 0; declared <= 5; ++declared) {
            for (int proxy = 0; proxy <= 3; ++proxy) {
              for (const int status : {200, 302, 401, 404, 408, 429, 499, 500, 502, 503, 504}) {
                seen = {.via_upstream = (bits & 1) != 0,
                        .complete = (bits & 2) != 0,
                        .details = details,
                        .attempts = attempts,
                        .redirected = (bits & 4) != 0,
                        .status = status,
                        .judged_status = status,
                        .grpc_status_missing = (bits & 8) != 0,
                        .declared = static_cast<DeclaredOutcome>(declared),
                        .proxy = static_cast<ProxyEvidence>(proxy)};
                checkPromise(policy, seen);
              }
            }
          }
        }
      }
    }
  }
}

// --- What is kept ------------------------------------------------------------------------------

Tombstone tombstoneOf(const Policy& policy, const Observation& seen) {
  const AttemptEnding ending = judgeOutcome(policy, seen);
  EXPECT_EQ(ending.kind, Completed);
  return ending.tombstone;
}

TEST(OutcomeTest, TombstoneSaysWhyNoResponseIsKept) {
  Policy policy;
  policy.max_response_bytes = 10;
  Observation seen = response(200);
  seen.body_bytes = 10;
  EXPECT_EQ(tombstoneOf(policy, seen), Tombstone::None);
  seen.body_bytes = 11;
  EXPECT_EQ(tombstoneOf(policy, seen), Tombstone::TooLarge);
  seen.body_bytes = 0;
  seen.storable = false;
  EXPECT_EQ(tombstoneOf(policy, seen), Tombstone::Unstorable);
  policy.store_response = false;
  EXPECT_EQ(tombstoneOf(policy, seen), Tombstone::Secret);
  for (const int status : {100, 199, 600, 999}) {
    EXPECT_EQ(tombstoneOf(Policy{}, response(status)), Tombstone::Unstorable) << status;
  }
  EXPECT_EQ(tombstoneOf(Policy{},
                        [] {
                          Observation cut = response(200);
                          cut.complete = false;
                          cut.details = "response_payload_too_large";
                          return cut;
                        }()),
            Tombstone::TooLarge);
}

TEST(OutcomeTest, EmptyBodyFitsInAnyLimit) {
  Policy policy;
  policy.max_response_bytes = 0;
  Observation seen = response(204);
  EXPECT_EQ(tombstoneOf(policy, seen), Tombstone::None);
  seen.body_bytes = 1;
  EXPECT_EQ(tombstoneOf(policy, seen), Tombstone::TooLarge);
}

// --- What is written ----------------------------------------------------------------------------

Ending written(const Observation& seen, const Policy& policy = {}, std::string response = {}) {
  return endingFor(judgeOutcome(policy, seen), seen, std::move(response), std::chrono::hours(1));
}

template <typename Alternative>
Alternative mustBe(const Ending& ending) {
  const auto* const found = std::get_if<Alternative>(&ending);
  EXPECT_NE(found, nullptr) << "alternative " << ending.index();
  return found == nullptr ? Alternative{} : *found;
}

TEST(EndingForTest, CompletionKeepsStatusAndResponse) {
  const auto ending = mustBe<idempotency::protocol::Completed>(written(response(201), {}, "bytes"));
  EXPECT_EQ(ending.status, 201);
  EXPECT_EQ(ending.tombstone, Tombstone::None);
  EXPECT_EQ(ending.response, "bytes");
  EXPECT_GT(ending.response_schema, 0);
  EXPECT_EQ(ending.ttl, std::nullopt);
}

TEST(EndingForTest, CompletionWithoutAResponseSaysWhy) {
  Policy policy;
  policy.store_response = false;
  const auto ending = mustBe<idempotency::protocol::Completed>(written(response(200), policy));
  EXPECT_EQ(ending.tombstone, Tombstone::Secret);
  EXPECT_EQ(ending.response, "");
}

TEST(EndingForTest, FailureNamesTheStatusThatLetTheRetryRun) {
  EXPECT_EQ(mustBe<Failed>(written(response(429))).error, "status_429");
}

TEST(EndingForTest, DeclarationIsNamedInPlaceOfTheStatus) {
  Observation seen = response(500);
  seen.declared = DeclaredOutcome::Unknown;
  EXPECT_EQ(mustBe<idempotency::protocol::Unknown>(written(seen)).error, "declared_unknown");
}

TEST(EndingForTest, WhatWasNotSentIsReleased) {
  mustBe<idempotency::protocol::Released>(written(sent("route_not_found", 0)));
}

TEST(EndingForTest, UnknownOutcomeNamesItsReasonAndWhenToAsk) {
  const auto no_answer =
      mustBe<idempotency::protocol::Unknown>(written(sent(EARLY "{remote_reset|text}")));
  EXPECT_EQ(no_answer.error, EARLY);
  EXPECT_EQ(no_answer.reconcile_after, std::chrono::hours(1));
  EXPECT_EQ(mustBe<idempotency::protocol::Unknown>(written(response(502))).error, "status_502");
  EXPECT_EQ(mustBe<idempotency::protocol::Unknown>(written(sent(""))).error, "no_response");
  EXPECT_EQ(mustBe<idempotency::protocol::Unknown>(written(sent(std::string(100, 'x')))).error,
            std::string(64, 'x'));
}

TEST(EndingForTest, RedirectThatGetsHereFreesNoKey) {
  mustBe<idempotency::protocol::Unknown>(written(sent("internal_redirect", 1)));
}

// --- Own transactions ---------------------------------------------------------------------------

Policy retriesUnknown() {
  Policy policy;
  policy.own_transaction = true;
  policy.on_lease_expired = LeaseExpired::Retry;
  return policy;
}

TEST(OwnTransactionTest, RetryFreesWhatIsNotKnown) {
  Observation cut = response(200);
  cut.complete = false;
  Observation no_grpc_status = response(200);
  no_grpc_status.grpc_status_missing = true;
  for (const auto& [seen, error] :
       {std::pair(sent("response_timeout"), "response_timeout"),
        std::pair(sent(EARLY "{remote_reset}"), EARLY), std::pair(cut, "via_upstream"),
        std::pair(no_grpc_status, "grpc_status_missing"), std::pair(response(502), "status_502"),
        std::pair(response(504), "status_504")}) {
    SCOPED_TRACE(error);
    const AttemptEnding verdict = judgeOutcome(retriesUnknown(), seen);
    EXPECT_EQ(verdict.kind, EndingKind::Retryable);
    EXPECT_EQ(mustBe<Failed>(written(seen, retriesUnknown())).error, error);
    EXPECT_EQ(judgeOutcome({}, seen).rule, verdict.rule);
  }
}

TEST(OwnTransactionTest, RetryNeverFreesWhatTheUpstreamCallsUnknown) {
  for (const DeclaredOutcome declared : {DeclaredOutcome::Unknown, DeclaredOutcome::Invalid}) {
    for (const bool complete : {true, false}) {
      Observation seen = response(500);
      seen.declared = declared;
      seen.complete = complete;
      mustBe<idempotency::protocol::Unknown>(written(seen, retriesUnknown()));
    }
  }
}

TEST(OwnTransactionTest, NeitherSettingFreesAnythingAlone) {
  Policy own = retriesUnknown();
  own.on_lease_expired = LeaseExpired::Unknown;
  Policy retry = retriesUnknown();
  retry.own_transaction = false;
  for (const Policy& policy : {own, retry}) {
    mustBe<idempotency::protocol::Unknown>(written(sent("response_timeout"), policy));
    mustBe<idempotency::protocol::Unknown>(written(response(502), policy));
    mustBe<idempotency::protocol::Unknown>(endingOfLost(policy, "stream_lost", std::nullopt));
  }
}

TEST(OwnTransactionTest, RetryFreesALostStream) {
  EXPECT_EQ(mustBe<Failed>(endingOfLost(retriesUnknown(), "stream_lost", std::nullopt)).error,
            "stream_lost");
}

TEST(OwnTransactionTest, ResultsAndReleasesStayWhatTheyAre) {
  mustBe<idempotency::protocol::Completed>(written(response(201), retriesUnknown()));
  mustBe<idempotency::protocol::Released>(written(response(401), retriesUnknown()));
  mustBe<idempotency::protocol::Released>(written(sent("route_not_found", 0), retriesUnknown()));
  EXPECT_EQ(judgeOutcome(retriesUnknown(), sent("internal_redirect", 1)).kind,
            EndingKind::Redirected);
}

// --- The page ----------------------------------------------------------------------------------

std::string page() {
  std::ifstream file("docs/semantics.md");
  EXPECT_TRUE(file.good()) << "docs/semantics.md";
  return {std::istreambuf_iterator<char>(file), {}};
}

// Which rules RETRY turns with own_transaction.
TEST(OutcomeTest, PageTellsWhichUnknownOutcomesAreRetriedWithOwnTransactions) {
  std::string retried;
  std::string kept;
  for (const OutcomeRule& rule : outcomeRules()) {
    if (rule.ending != EndingKind::Unknown) {
      continue;
    }
    const bool declared = std::string_view(rule.name).starts_with("declared_");
    std::string& list = declared ? kept : retried;
    list += fmt::format("{}`{}`", list.empty() ? "" : ", ", rule.name);
  }
  EXPECT_NE(page().find(fmt::format("| {} | failed_retryable |", retried)), std::string::npos);
  EXPECT_NE(page().find(fmt::format("| {} | unknown |", kept)), std::string::npos);
}

TEST(OutcomeTest, PageHasARowForEveryRule) {
  const std::string text = page();
  size_t last = 0;
  for (const OutcomeRule& rule : outcomeRules()) {
    const std::string row = fmt::format("| `{}` | {} |", rule.name, name(rule.ending));
    const size_t place = text.find(row);
    ASSERT_NE(place, std::string::npos) << row;
    EXPECT_GT(place, last) << rule.name << " is not in the order in which rules are tried";
    EXPECT_FALSE(rule.source.empty());
    last = place;
  }
}

}  // namespace
}  // namespace idempotency::protocol
