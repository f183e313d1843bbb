#pragma once

#include <string>

#include "source/protocol/record.h"

namespace idempotency::protocol {

// Replaces a key in logs, metadata and traces, which must not contain the key itself: 16
// hexadecimal digits of HMAC-SHA256 over the key, with tenant and operation as the HMAC key. An
// identity has the same hash in every Envoy; the same key of two tenants has two hashes. Empty if
// OpenSSL fails.
std::string keyHash(const Identity& identity);

}  // namespace idempotency::protocol
