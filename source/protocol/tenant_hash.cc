#include "source/protocol/tenant_hash.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <openssl/sha.h>

#include "source/fingerprint/hex.h"

namespace idempotency::protocol {

std::string tenantHash(const std::string& tenant) {
  constexpr size_t ShownBytes = 8;
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const uint8_t*>(tenant.data()), tenant.size(), digest.data());
  return "sha256:" + fingerprint::toHex(std::span(digest).first(ShownBytes));
}

}  // namespace idempotency::protocol
