#include "source/protocol/classify.h"

#include <string>

#include <gtest/gtest.h>

namespace idempotency {
namespace {

using enum Outcome;

constexpr uint64_t bit(int n) {
  return uint64_t{1} << n;
}

// A request that went on to the upstream, of which no answer came.
StreamFacts sent(std::string_view details, uint64_t attempts = 1, uint64_t flags = 0) {
  return {.released = true, .details = details, .flags = flags, .attempts = attempts};
}

struct Row {
  std::string name;
  StreamFacts facts;
  Outcome want;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.name;
}

class ClassifyTest : public testing::TestWithParam<Row> {};

TEST_P(ClassifyTest, GivesTheDesignsRow) {
  EXPECT_EQ(classify(GetParam().facts), GetParam().want);
}

#define EARLY "upstream_reset_before_response_started"
#define LATE "upstream_reset_after_response_started"

INSTANTIATE_TEST_SUITE_P(
    NeverSent, ClassifyTest,
    testing::Values(
        Row{"no route", sent("route_not_found", 0, bit(8)), NeverSent},
        Row{"no route configuration", sent("route_configuration_not_found", 0), NeverSent},
        Row{"no cluster", sent("cluster_not_found", 0, bit(24)), NeverSent},
        Row{"direct response", sent("direct_response", 0), NeverSent},
        Row{"no healthy host", sent("no_healthy_upstream", 1, bit(1)), NeverSent},
        Row{"no healthy host, not counted", sent("no_healthy_upstream", 0, bit(1)), NeverSent},
        Row{"maintenance", sent("maintenance_mode", 0), NeverSent},
        Row{"drop overload", sent("drop_overload", 0), NeverSent},
        Row{"unconditional drop overload", sent("unconditional_drop_overload", 0), NeverSent},
        Row{"strict headers", sent("request_headers_failed_strict_check", 0), NeverSent},
        Row{"refused connection",
            sent(EARLY "{remote_connection_failure|delayed_connect_error:_Connection_refused}", 1,
                 bit(5)),
            NeverSent},
        Row{"refused connection, no transport text", sent(EARLY "{remote_connection_failure}", 1),
            NeverSent},
        Row{"refused connection, retry limit of none",
            sent(EARLY "{remote_connection_failure}", 1, bit(5) | bit(15)), NeverSent},
        Row{"local connection failure", sent(EARLY "{local_connection_failure}", 1), NeverSent},
        Row{"connect timeout", sent(EARLY "{connection_timeout}", 1, bit(5)), NeverSent},
        Row{"circuit breaker", sent(EARLY "{overflow}", 1, bit(7)), NeverSent},
        Row{"refused stream", sent(EARLY "{remote_refused_stream_reset}", 1, bit(4)), NeverSent},
        Row{"fault", sent("fault_filter_abort", 0), NeverSent},
        Row{"rbac", sent("rbac_access_denied_matched_policy[none]", 0), NeverSent},
        Row{"ext_authz", sent("ext_authz_denied", 0, bit(12)), NeverSent},
        Row{"ext_authz error", sent("ext_authz_error", 0), NeverSent},
        Row{"ext_authz invalid", sent("ext_authz_invalid", 0), NeverSent},
        Row{"jwt", sent("jwt_authn_access_denied{Jwt_is_missing}", 0), NeverSent},
        Row{"basic auth", sent("invalid_credential_for_basic_auth", 0), NeverSent},
        Row{"api key", sent("unknown_api_key", 0), NeverSent},
        Row{"csrf", sent("csrf_origin_mismatch", 0), NeverSent},
        Row{"rate limit", sent("request_rate_limited", 0, bit(11)), NeverSent},
        Row{"rate limit error", sent("rate_limiter_error", 0), NeverSent},
        Row{"local rate limit", sent("local_rate_limited", 0), NeverSent},
        Row{"adaptive concurrency", sent("reached_concurrency_limit", 0), NeverSent},
        Row{"admission control", sent("denied_by_admission_control", 0), NeverSent},
        Row{"request too large for a later filter", sent("request_payload_too_large", 0),
            NeverSent},
        Row{"transcoder", sent("early_grpc_json_transcode_failure{x}", 0), NeverSent},
        Row{"dns", sent("dns_resolution_failure{x}", 0), NeverSent},

        // Our filter still held the request: whatever happened, no upstream saw it.
        Row{"held, client gone",
            {.details = "downstream_remote_disconnect", .flags = bit(14)},
            NeverSent},
        Row{"held, HTTP/2 reset", {.details = "http2.remote_reset"}, NeverSent},
        Row{"held, idle timeout", {.details = "stream_idle_timeout", .flags = bit(16)}, NeverSent},
        Row{"held, max duration", {.details = "max_duration_timeout"}, NeverSent},
        Row{"held, Envoy stops",
            {.details = "downstream_local_disconnect(filter_chain_is_being_removed)"},
            NeverSent},
        Row{"held, something new", {.details = "never_seen_before"}, NeverSent},
        Row{"held, nothing told", {}, NeverSent}));

INSTANTIATE_TEST_SUITE_P(
    Unknown, ClassifyTest,
    testing::Values(
        Row{"route timeout", sent("response_timeout", 1, bit(2)), Unknown},
        Row{"per try timeout", sent("upstream_per_try_timeout", 1, bit(2)), Unknown},
        Row{"per try idle timeout", sent("upstream_per_try_idle_timeout", 1), Unknown},
        Row{"upstream max duration", sent("upstream_max_stream_duration_reached", 1), Unknown},
        Row{"connection ended", sent(EARLY "{connection_termination}", 1, bit(6)), Unknown},
        Row{"remote reset", sent(EARLY "{remote_reset}", 1, bit(4)), Unknown},
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
        Row{"overflow, yet a protocol error", sent(EARLY "{overflow}", 1, bit(23)), Unknown},
        Row{"refused stream, yet timed out",
            sent(EARLY "{remote_refused_stream_reset}", 1, bit(4) | bit(2)), Unknown},

        // Held by us, yet an upstream was called: cannot be, so nothing is promised.
        Row{"held, with an attempt", {.details = "route_not_found", .attempts = 1}, Unknown},
        Row{"held, with an answer", {.via_upstream = true, .complete = true}, Unknown}));

StreamFacts answered(bool complete, std::string_view details, uint64_t attempts = 1) {
  return {.released = true,
          .via_upstream = true,
          .complete = complete,
          .details = details,
          .attempts = attempts};
}

INSTANTIATE_TEST_SUITE_P(
    Response, ClassifyTest,
    testing::Values(
        Row{"whole", answered(true, "via_upstream"), Answered},
        Row{"whole, after a retry", answered(true, "via_upstream", 2), Answered},
        Row{"whole, client gone while it is stored", answered(true, "downstream_remote_disconnect"),
            Answered},
        Row{"whole, idle timeout while it is stored", answered(true, "stream_idle_timeout"),
            Answered},
        Row{"whole, max duration while it is stored", answered(true, "max_duration_timeout"),
            Answered},
        Row{"cut by Envoy's buffer limit", answered(false, "response_payload_too_large"),
            CutByEnvoy},
        Row{"truncated", answered(false, LATE "{protocol_error}"), Unknown},
        Row{"reset", answered(false, LATE "{remote_reset}"), Unknown},
        Row{"client gone before the end", answered(false, "downstream_remote_disconnect"), Unknown},
        Row{"still coming", answered(false, "via_upstream"), Unknown},
        Row{"timeout before the end", answered(false, "response_timeout"), Unknown},
        Row{"never-sent words after the headers", answered(false, "route_not_found"), Unknown},
        Row{"redirect", sent("internal_redirect", 1), Redirected},
        Row{"redirect, not ours to follow", answered(true, "internal_redirect"), Answered}));

TEST(OutcomeTest, ZeroedOutcomePromisesNothing) {
  EXPECT_EQ(Outcome{}, Unknown);
}

}  // namespace
}  // namespace idempotency
