#include "source/protocol/key_hash.h"

#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <openssl/core_names.h>
#include <openssl/evp.h>

#include "source/fingerprint/hex.h"

namespace idempotency::protocol {
namespace {

constexpr size_t ShownBytes = 8;

struct FreeContext {
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MAC_CTX, FreeContext>;

// Null: OpenSSL has no HMAC with SHA-256.
Context makeContext() {
  EVP_MAC* const algorithm = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  Context context(algorithm == nullptr ? nullptr : EVP_MAC_CTX_new(algorithm));
  EVP_MAC_free(algorithm);
  char digest[] = "SHA2-256";
  const std::array parameters = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                 OSSL_PARAM_construct_end()};
  if (context == nullptr || EVP_MAC_CTX_set_params(context.get(), parameters.data()) != 1) {
    return nullptr;
  }
  return context;
}

const unsigned char* bytesOf(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Length first, so that two pairs never give the same bytes.
std::string hashingKey(const Identity& identity) {
  const fmt::format_int length(identity.tenant.size());
  std::string key;
  key.reserve(length.size() + 1 + identity.tenant.size() + identity.operation.size());
  return key.append(length.data(), length.size())
      .append(":")
      .append(identity.tenant)
      .append(identity.operation);
}

// HMAC-SHA256 with a key that rarely changes. One per thread, because looking up the algorithms
// takes longer than the hash.
class Hasher {
public:
  static Hasher& ofThisThread() {
    thread_local Hasher hasher;
    return hasher;
  }

  // Empty: OpenSSL refused.
  std::string hash(std::string key, const std::string& text) {
    std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
    size_t size = 0;
    if (context_ == nullptr || !begin(std::move(key)) ||
        EVP_MAC_update(context_.get(), bytesOf(text), text.size()) != 1 ||
        EVP_MAC_final(context_.get(), digest.data(), &size, digest.size()) != 1) {
      return {};
    }
    return fingerprint::toHex(std::span(digest).first(ShownBytes));
  }

private:
  bool begin(std::string key) {
    if (key_ == key) {
      return EVP_MAC_init(context_.get(), nullptr, 0, nullptr) == 1;
    }
    key_ = std::move(key);
    if (EVP_MAC_init(context_.get(), bytesOf(*key_), key_->size(), nullptr) == 1) {
      return true;
    }
    key_.reset();
    return false;
  }

  const Context context_ = makeContext();
  std::optional<std::string> key_;  // What context_ is keyed with.
};

}  // namespace

std::string keyHash(const Identity& identity) {
  return Hasher::ofThisThread().hash(hashingKey(identity), identity.key);
}

}  // namespace idempotency::protocol
