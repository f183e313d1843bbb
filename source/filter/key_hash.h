#pragma once

#include <string>

#include "source/protocol/record.h"

namespace idempotency {

// What stands for a key in logs, metadata and traces, where the key itself must not: 16 hexadecimal
// digits of HMAC-SHA256 over the key, keyed with tenant and operation. The same identity has the
// same hash in every Envoy; the same key of two tenants has two. Empty if OpenSSL cannot hash.
std::string keyHash(const Identity& identity);

}  // namespace idempotency
