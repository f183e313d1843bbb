#pragma once

#include <string>
#include <string_view>

namespace idempotency::fingerprint {

// The authority (`:authority`, or Host) in normalized form (RFC 3986 §6.2): the host in lower case,
// without an empty port and without the scheme's default port (80 for http, 443 for https). Nothing
// else changes: a trailing dot or another port makes a different authority. The result is a view of
// `authority` if that is, or begins with, the normalized form; else of `scratch`.
std::string_view normalAuthority(std::string_view authority, std::string_view scheme,
                                 std::string& scratch);

}  // namespace idempotency::fingerprint
