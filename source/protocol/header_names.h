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
inline constexpr std::string_view StoredHeader = "idempotency-stored";

// Whether the name is one of the above: no config may use it for something else.
bool isOwnHeader(std::string_view lower_name);

// RFC 9110 §5.6.2: what a header name, and a method, may consist of.
bool isToken(std::string_view text);

std::string toLower(std::string_view text);

}  // namespace idempotency
