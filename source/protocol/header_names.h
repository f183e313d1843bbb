#pragma once

#include <string>
#include <string_view>

namespace idempotency {

// The headers that the filter reads and writes, in lower case as Envoy has them.
inline constexpr std::string_view KeyHeader = "idempotency-key";
// To the upstream: the claim's attempt token and, on a re-run, how far an earlier attempt came.
inline constexpr std::string_view AttemptHeader = "idempotency-attempt";
inline constexpr std::string_view RecoveryPointHeader = "idempotency-recovery-point";
// To the client.
inline constexpr std::string_view ReplayedHeader = "idempotent-replayed";
inline constexpr std::string_view ExpiresHeader = "idempotency-key-expires";
// "false": the answer is true, but it could not be stored.
inline constexpr std::string_view StoredHeader = "idempotency-stored";
// "false": the store failed and the route says FAIL_OPEN, so the request ran unprotected.
inline constexpr std::string_view EnforcedHeader = "idempotency-enforced";

// CORS: whether browsers' scripts take part, and which headers they may read.
inline constexpr std::string_view AllowOriginHeader = "access-control-allow-origin";
inline constexpr std::string_view ExposeHeadersHeader = "access-control-expose-headers";

// Whether the name is one of the filter's own: no config may use it for something else.
bool isOwnHeader(std::string_view lower_name);

// RFC 9110 §5.6.2: what a header name, and a method, may consist of.
bool isToken(std::string_view text);

std::string toLower(std::string_view text);

}  // namespace idempotency
