#include "source/filter/key_hash.h"

#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <span>
#include <string_view>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "source/fingerprint/hex.h"

namespace idempotency {
namespace {

constexpr size_t ShownBytes = 8;

// Lengths first, so that two pairs never give the same bytes.
std::string hashingKey(const Identity& identity) {
  return fmt::format("{}:{}{}", identity.tenant.size(), identity.tenant, identity.operation);
}

}  // namespace

std::string keyHash(const Identity& identity) {
  const std::string key = hashingKey(identity);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(identity.key.data()), identity.key.size(),
           digest.data(), &size) == nullptr) {
    return {};
  }
  return toHex(std::span(digest).first(ShownBytes));
}

}  // namespace idempotency
