#include "source/protocol/classify.h"

#include <algorithm>
#include <array>

namespace idempotency {
namespace {

// Envoy's response code details look so: name, name{reason}, name{reason|transport detail},
// name[policy], name(reason). Spaces are underscores.
struct Details {
  std::string_view name;
  std::string_view reason;  // Of the braces only.
};

Details split(std::string_view text) {
  const size_t open = text.find_first_of("{[(|");
  Details details{text.substr(0, open), {}};
  if (open == std::string_view::npos || text[open] != '{') {
    return details;
  }
  const std::string_view rest = text.substr(open + 1);
  const size_t end = rest.find_first_of("|}");
  if (end != std::string_view::npos) {
    details.reason = rest.substr(0, end);
  }
  return details;
}

// --- What was surely not run
// ------------------------------------------------------------------------------

// The router and what it asks. The router counts its attempt before it looks for a connection, so
// the first attempt may have begun; after a second one the details tell of the last alone, and an
// earlier one may have run.
constexpr uint64_t FirstAttempt = 1;
// Other filters after ours: they answered instead of the router, which never began.
constexpr uint64_t NoAttempt = 0;

struct NeverSentRow {
  std::string_view name;
  std::string_view reason;  // Empty: the row is for details without one, or with any.
  uint64_t max_attempts;
};

constexpr std::string_view ResetEarly = "upstream_reset_before_response_started";

constexpr std::array NeverSentRows = {
    // The router found nowhere to send it.
    NeverSentRow{"route_not_found", "", FirstAttempt},
    NeverSentRow{"route_configuration_not_found", "", FirstAttempt},
    NeverSentRow{"cluster_not_found", "", FirstAttempt},
    NeverSentRow{"direct_response", "", FirstAttempt},
    NeverSentRow{"no_healthy_upstream", "", FirstAttempt},
    NeverSentRow{"maintenance_mode", "", FirstAttempt},
    NeverSentRow{"drop_overload", "", FirstAttempt},
    NeverSentRow{"unconditional_drop_overload", "", FirstAttempt},
    NeverSentRow{"request_headers_failed_strict_check", "", FirstAttempt},
    // It got no connection.
    NeverSentRow{ResetEarly, "remote_connection_failure", FirstAttempt},
    NeverSentRow{ResetEarly, "local_connection_failure", FirstAttempt},
    NeverSentRow{ResetEarly, "connection_timeout", FirstAttempt},
    NeverSentRow{ResetEarly, "overflow", FirstAttempt},
    // The upstream refused the stream (or went away below its id): RFC 9113 §8.7 promises that it
    // was not processed.
    NeverSentRow{ResetEarly, "remote_refused_stream_reset", FirstAttempt},

    // Another filter denied it before the router.
    NeverSentRow{"fault_filter_abort", "", NoAttempt},
    NeverSentRow{"rbac_access_denied_matched_policy", "", NoAttempt},
    NeverSentRow{"ext_authz_denied", "", NoAttempt},
    NeverSentRow{"ext_authz_error", "", NoAttempt},
    NeverSentRow{"ext_authz_invalid", "", NoAttempt},
    NeverSentRow{"jwt_authn_access_denied", "", NoAttempt},
    NeverSentRow{"no_credential_for_basic_auth", "", NoAttempt},
    NeverSentRow{"invalid_scheme_for_basic_auth", "", NoAttempt},
    NeverSentRow{"invalid_format_for_basic_auth", "", NoAttempt},
    NeverSentRow{"invalid_credential_for_basic_auth", "", NoAttempt},
    NeverSentRow{"missing_key_sources", "", NoAttempt},
    NeverSentRow{"missing_credentials", "", NoAttempt},
    NeverSentRow{"missing_api_key", "", NoAttempt},
    NeverSentRow{"unknown_api_key", "", NoAttempt},
    NeverSentRow{"client_not_allowed", "", NoAttempt},
    NeverSentRow{"csrf_origin_mismatch", "", NoAttempt},
    NeverSentRow{"request_rate_limited", "", NoAttempt},
    NeverSentRow{"rate_limiter_error", "", NoAttempt},
    NeverSentRow{"local_rate_limited", "", NoAttempt},
    NeverSentRow{"reached_concurrency_limit", "", NoAttempt},
    NeverSentRow{"denied_by_admission_control", "", NoAttempt},
    NeverSentRow{"request_payload_too_large", "", NoAttempt},
    NeverSentRow{"early_grpc_json_transcode_failure", "", NoAttempt},
    NeverSentRow{"dns_cache_overflow", "", NoAttempt},
    NeverSentRow{"dns_resolution_failure", "", NoAttempt},
    NeverSentRow{"dynamic_forward_proxy_pending_request_overflow", "", NoAttempt},
    NeverSentRow{"dynamic_forward_proxy_cluster_is_gone", "", NoAttempt},
    NeverSentRow{"sub_cluster_overflow", "", NoAttempt},
    NeverSentRow{"sub_cluster_warming_timeout", "", NoAttempt},
};

// Flags that say that an upstream was in play, whatever the details say: request timeout, remote
// reset, connection terminated, protocol error.
constexpr uint64_t UpstreamFlags =
    uint64_t{1} << 2 | uint64_t{1} << 4 | uint64_t{1} << 6 | uint64_t{1} << 23;
// A refused stream is a remote reset, too.
constexpr uint64_t RemoteReset = uint64_t{1} << 4;

bool matches(const NeverSentRow& row, const Details& details) {
  return row.name == details.name && (row.reason.empty() || row.reason == details.reason);
}

bool isNeverSent(const StreamFacts& facts, const Details& details) {
  const auto row = std::find_if(NeverSentRows.begin(), NeverSentRows.end(),
                                [&](const NeverSentRow& row) { return matches(row, details); });
  if (row == NeverSentRows.end() || facts.attempts > row->max_attempts) {
    return false;
  }
  const uint64_t contradicting =
      row->reason == "remote_refused_stream_reset" ? UpstreamFlags & ~RemoteReset : UpstreamFlags;
  return (facts.flags & contradicting) == 0;
}

}  // namespace

Outcome classify(const StreamFacts& facts) {
  const Details details = split(facts.details);
  if (!facts.released) {
    return facts.attempts == 0 && !facts.via_upstream ? Outcome::NeverSent : Outcome::Unknown;
  }
  if (facts.via_upstream) {
    if (facts.complete) {
      return Outcome::Answered;
    }
    return details.name == "response_payload_too_large" ? Outcome::CutByEnvoy : Outcome::Unknown;
  }
  if (details.name == "internal_redirect") {
    return Outcome::Redirected;
  }
  return isNeverSent(facts, details) ? Outcome::NeverSent : Outcome::Unknown;
}

}  // namespace idempotency
