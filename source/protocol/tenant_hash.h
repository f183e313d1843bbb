#pragma once

#include <string>

namespace idempotency::protocol {

// Stands for a tenant whose records were purged, in the audit and in logs: "sha256:" and 16
// hexadecimal digits. purge_tenant() of PostgreSQL makes the same.
std::string tenantHash(const std::string& tenant);

}  // namespace idempotency::protocol
