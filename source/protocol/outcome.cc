#include "source/protocol/outcome.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

#include "source/http/status_set.h"
#include "source/protocol/envoy_details.h"

namespace idempotency::protocol {
namespace {

// --- What Envoy says when the request was not sent ---------------------------------------------

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
    // Not "remote_refused_stream_reset": RFC 9113 §8.7 promises that the request was not processed,
    // but HAProxy refuses the stream also if its server closed the connection after the request.

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

// Envoy's response flags, each the number of its bit (CoreResponseFlag in Envoy's stream_info.h).
enum class ResponseFlag : uint8_t {
  UpstreamRequestTimeout = 2,
  UpstreamRemoteReset = 4,
  UpstreamConnectionTermination = 6,
  UpstreamProtocolError = 23,
};

constexpr uint64_t bitOf(ResponseFlag flag) {
  return uint64_t{1} << static_cast<uint8_t>(flag);
}

// Flags that say that an upstream was in play, whatever the details say.
constexpr uint64_t UpstreamFlags =
    bitOf(ResponseFlag::UpstreamRequestTimeout) | bitOf(ResponseFlag::UpstreamRemoteReset) |
    bitOf(ResponseFlag::UpstreamConnectionTermination) | bitOf(ResponseFlag::UpstreamProtocolError);

bool matches(const NeverSentRow& row, const EnvoyDetails& details) {
  return row.name == details.name && (row.reason.empty() || row.reason == details.reason);
}

bool isNeverSent(const Observation& seen, const EnvoyDetails& details) {
  const auto row = std::find_if(NeverSentRows.begin(), NeverSentRows.end(),
                                [&](const NeverSentRow& row) { return matches(row, details); });
  return row != NeverSentRows.end() && seen.attempts <= row->max_attempts &&
         (seen.flags & UpstreamFlags) == 0;
}

// --- Words of the table ------------------------------------------------------------------------

constexpr int MinFinalStatus = 200;

bool isNotSent(const Observation& seen) {
  return !seen.redirected && isNeverSent(seen, splitDetails(seen.details));
}

// Envoy's buffer limit threw the body away: it ran, and its status is known.
bool isCutByEnvoy(const Observation& seen) {
  return !seen.complete && splitDetails(seen.details).name == "response_payload_too_large";
}

bool isWhole(const Observation& seen) {
  return seen.via_upstream && (seen.complete || isCutByEnvoy(seen));
}

// Whether the upstream may have got the request before the attempt that this response is about.
bool wasSentBefore(const Observation& seen) {
  return seen.attempts > 1 || seen.redirected || seen.proxy == ProxyEvidence::Retried;
}

bool isListed(const Policy& policy, int status) {
  return policy.retryable_statuses.contains(status) || policy.released_statuses.contains(status);
}

// A status that means "no result", no matter which hop sent it. Any other error status is the
// service's own refusal, even if its text comes from a proxy: a service may relay another's error.
bool isNoResult(const Policy& policy, int status) {
  return isServerError(status) || isListed(policy, status);
}

// --- The table ---------------------------------------------------------------------------------

using Applies = bool (*)(const Policy&, const Observation&);

template <DeclaredOutcome declared>
constexpr Applies Declares = [](const Policy&, const Observation& seen) {
  return seen.via_upstream && seen.declared == declared;
};

constexpr std::array Rules = {
    OutcomeRule{"redirect", "Envoy's details: internal_redirect", OutcomeBasis::Envoy,
                EndingKind::Redirected,
                [](const Policy&, const Observation& seen) {
                  return !seen.via_upstream &&
                         splitDetails(seen.details).name == "internal_redirect";
                }},

    // The upstream knows best.
    OutcomeRule{"declared_completed", "Idempotency-Outcome", OutcomeBasis::Declaration,
                EndingKind::Completed, Declares<DeclaredOutcome::Completed>},
    OutcomeRule{"declared_retryable", "Idempotency-Outcome", OutcomeBasis::Declaration,
                EndingKind::Retryable, Declares<DeclaredOutcome::Retryable>},
    OutcomeRule{"declared_not_run", "Idempotency-Outcome", OutcomeBasis::Declaration,
                EndingKind::Released, Declares<DeclaredOutcome::NotRun>},
    OutcomeRule{"declared_unknown", "Idempotency-Outcome", OutcomeBasis::Declaration,
                EndingKind::Unknown, Declares<DeclaredOutcome::Unknown>},
    OutcomeRule{"declared_invalid", "Idempotency-Outcome", OutcomeBasis::InvalidDeclaration,
                EndingKind::Unknown, Declares<DeclaredOutcome::Invalid>},

    // No response of the upstream, or not a whole one.
    OutcomeRule{"not_sent", "Envoy's details and flags, first attempt, no redirect",
                OutcomeBasis::Envoy, EndingKind::Released,
                [](const Policy&, const Observation& seen) {
                  return !seen.via_upstream && isNotSent(seen);
                }},
    OutcomeRule{"no_response", "Envoy's details: any other", OutcomeBasis::Envoy,
                EndingKind::Unknown,
                [](const Policy&, const Observation& seen) { return !seen.via_upstream; }},
    OutcomeRule{"cut_short", "the stream's end before the response's", OutcomeBasis::Envoy,
                EndingKind::Unknown,
                [](const Policy&, const Observation& seen) { return !isWhole(seen); }},
    OutcomeRule{"grpc_status_missing", "gRPC trailers", OutcomeBasis::Response, EndingKind::Unknown,
                [](const Policy&, const Observation& seen) { return seen.grpc_status_missing; }},

    // A whole response.
    OutcomeRule{"kept_error", "policy: server_errors KEEP", OutcomeBasis::Response,
                EndingKind::Completed,
                [](const Policy& policy, const Observation& seen) {
                  return policy.server_errors == ServerErrors::Keep &&
                         isServerError(seen.judged_status) && !isListed(policy, seen.judged_status);
                }},
    OutcomeRule{"strict_error", "policy: server_errors UNKNOWN", OutcomeBasis::Response,
                EndingKind::Unknown,
                [](const Policy& policy, const Observation& seen) {
                  return policy.server_errors == ServerErrors::Unknown &&
                         isServerError(seen.judged_status);
                }},
    OutcomeRule{"proxy_not_sent", "Proxy-Status, or the text of a proxy's error",
                OutcomeBasis::Proxy, EndingKind::Released,
                [](const Policy& policy, const Observation& seen) {
                  return seen.proxy == ProxyEvidence::NotSent && !wasSentBefore(seen) &&
                         isNoResult(policy, seen.judged_status);
                }},
    OutcomeRule{"proxy_in_doubt", "Proxy-Status, or the text of a proxy's error",
                OutcomeBasis::Proxy, EndingKind::Unknown,
                [](const Policy& policy, const Observation& seen) {
                  const bool by_proxy =
                      seen.proxy == ProxyEvidence::InDoubt || seen.proxy == ProxyEvidence::NotSent;
                  return by_proxy && isNoResult(policy, seen.judged_status);
                }},
    OutcomeRule{"sent_before", "Envoy's attempt count, internal redirects, a proxy's retries",
                OutcomeBasis::EarlierSend, EndingKind::Unknown,
                [](const Policy& policy, const Observation& seen) {
                  return wasSentBefore(seen) && isListed(policy, seen.judged_status);
                }},
    OutcomeRule{"retryable_status", "policy: retryable_statuses", OutcomeBasis::Response,
                EndingKind::Retryable,
                [](const Policy& policy, const Observation& seen) {
                  return policy.retryable_statuses.contains(seen.judged_status);
                }},
    OutcomeRule{"released_status", "policy: released_statuses", OutcomeBasis::Response,
                EndingKind::Released,
                [](const Policy& policy, const Observation& seen) {
                  return policy.released_statuses.contains(seen.judged_status);
                }},
    OutcomeRule{
        "server_error", "the status: 408, 499 and 5xx", OutcomeBasis::Response, EndingKind::Unknown,
        [](const Policy&, const Observation& seen) { return isServerError(seen.judged_status); }},
    OutcomeRule{"result", "the status: any other", OutcomeBasis::Response, EndingKind::Completed,
                [](const Policy&, const Observation&) { return true; }},
};

Tombstone tombstoneFor(const Policy& policy, const Observation& seen) {
  if (!policy.store_response) {
    return Tombstone::Secret;
  }
  if (isCutByEnvoy(seen) || seen.body_bytes > policy.max_response_bytes) {
    return Tombstone::TooLarge;
  }
  const bool final_status = seen.status >= MinFinalStatus && seen.status <= http::MaxStatus;
  return seen.complete && seen.storable && final_status ? Tombstone::None : Tombstone::Unstorable;
}

bool isDeclared(const OutcomeRule& rule) {
  return rule.basis == OutcomeBasis::Declaration || rule.basis == OutcomeBasis::InvalidDeclaration;
}

// --- What is written ---------------------------------------------------------------------------

// Why a response did not come, in Envoy's word for it: no text of the upstream's.
std::string errorWord(std::string_view details) {
  constexpr size_t Longest = 64;
  const std::string_view word = splitDetails(details).name;
  return word.empty() ? "no_response" : std::string(word.substr(0, Longest));
}

// What the record says about an attempt that has no result.
std::string errorOf(const AttemptEnding& verdict, const Observation& seen) {
  if (!seen.via_upstream || !seen.complete) {
    return errorWord(seen.details);
  }
  const bool by_status =
      isServerError(seen.judged_status) && seen.declared == DeclaredOutcome::None;
  const bool by_policy = verdict.kind == EndingKind::Retryable && !verdict.not_known;
  return by_policy || by_status
             ? fmt::format("status_{}", seen.judged_status)
             : std::string(verdict.rule);
}

}  // namespace

std::span<const OutcomeRule> outcomeRules() {
  return Rules;
}

AttemptEnding judgeOutcome(const Policy& policy, const Observation& seen) {
  for (const OutcomeRule& rule : Rules) {
    if (rule.applies(policy, seen)) {
      AttemptEnding ending{rule.ending, Tombstone::None, rule.name, rule.basis};
      if (rule.ending == EndingKind::Completed) {
        ending.tombstone = tombstoneFor(policy, seen);
      }
      if (rule.ending == EndingKind::Unknown && policy.retriesUnknown() && !isDeclared(rule)) {
        ending.kind = EndingKind::Retryable;
        ending.not_known = true;
      }
      return ending;
    }
  }
  return {};
}

Ending endingOfLost(const Policy& policy, std::string error,
                    std::optional<std::chrono::milliseconds> reconcile_after) {
  if (policy.retriesUnknown()) {
    return Failed{std::move(error)};
  }
  return Unknown{std::move(error), reconcile_after};
}

Ending endingFor(const AttemptEnding& verdict, const Observation& seen, std::string response,
                 std::optional<std::chrono::milliseconds> reconcile_after) {
  switch (verdict.kind) {
    case EndingKind::Completed:
      return Completed{.status = seen.status,
                       .tombstone = verdict.tombstone,
                       .response_schema = ResponseSchema,
                       .response = std::move(response),
                       .ttl = std::nullopt};
    case EndingKind::Retryable:
      return Failed{errorOf(verdict, seen)};
    case EndingKind::Released:
      return Released{};
    case EndingKind::Redirected:
    case EndingKind::Unknown:
      break;
  }
  return Unknown{errorOf(verdict, seen), reconcile_after};
}

std::string_view name(EndingKind kind) {
  switch (kind) {
    case EndingKind::Unknown:
      return "unknown";
    case EndingKind::Completed:
      return "completed";
    case EndingKind::Retryable:
      return "failed_retryable";
    case EndingKind::Released:
      return "released";
    case EndingKind::Redirected:
      return "redirected";
  }
  return "unknown";
}

}  // namespace idempotency::protocol
