#pragma once

#include <array>
#include <string>
#include <string_view>

namespace idempotency::http {

// The headers that the filter reads and writes, in lower case as in Envoy.
inline constexpr std::string_view KeyHeader = "idempotency-key";
// To the upstream: the attempt token of the claim and, on a re-run, the recovery point of an
// earlier attempt.
inline constexpr std::string_view AttemptHeader = "idempotency-attempt";
inline constexpr std::string_view RecoveryPointHeader = "idempotency-recovery-point";
// To the private listener: which detached run the request is. Never reaches the upstream.
inline constexpr std::string_view RunHeader = "idempotency-run";
// What a client must not send: these three, and their names and the key's with underscores, which
// CGI-like servers cannot distinguish from ours.
inline constexpr std::array<std::string_view, 9> ForgeableHeaders = {
    AttemptHeader,     RecoveryPointHeader,          RunHeader,
    "idempotency_key", "idempotency_attempt",        "idempotency_recovery_point",
    "idempotency_run", "idempotency-recovery_point", "idempotency_recovery-point",
};
// To the client.
inline constexpr std::string_view ReplayedHeader = "idempotent-replayed";
inline constexpr std::string_view ExpiresHeader = "idempotency-key-expires";
// "false": this is the actual response, but it could not be stored.
inline constexpr std::string_view StoredHeader = "idempotency-stored";
// "false": the store failed and the policy is FAIL_OPEN, so the request ran unprotected.
inline constexpr std::string_view EnforcedHeader = "idempotency-enforced";

// From the upstream: what its response means for the record. Never reaches a client.
inline constexpr std::string_view OutcomeHeader = "idempotency-outcome";

// CORS: whether scripts in browsers are involved, and which headers they may read.
inline constexpr std::string_view OriginHeader = "origin";
inline constexpr std::string_view AllowOriginHeader = "access-control-allow-origin";
inline constexpr std::string_view ExposeHeadersHeader = "access-control-expose-headers";

// Whether the filter itself uses the name, so that configs must not use it.
bool isOwnHeader(std::string_view lower_name);

// Whether the name means the host of the request. Envoy keeps it as `:authority`, and has no `host`
// among the headers.
bool isHostHeader(std::string_view lower_name);

// RFC 9110 §5.6.2: what a header name, and a method, may consist of.
bool isToken(std::string_view text);

std::string toLower(std::string_view text);

}  // namespace idempotency::http
