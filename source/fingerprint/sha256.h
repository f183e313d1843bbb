#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <openssl/evp.h>

namespace idempotency::fingerprint {

inline constexpr size_t Sha256Size = 32;
using Sha256Digest = std::array<uint8_t, Sha256Size>;

// One SHA-256, by OpenSSL. A context is kept per thread and lent to the object, because creating
// one costs as much as hashing 64 bytes.
class Sha256 {
public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);

  // None if OpenSSL failed at any step (no provider with SHA-256, no memory). Call it once.
  [[nodiscard]] std::optional<Sha256Digest> finish();

private:
  struct FreeContext {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

  static Context& spare();

  Context context_;
  bool ok_ = false;
};

}  // namespace idempotency::fingerprint
