#include "source/fingerprint/sha256.h"

#include <utility>

namespace idempotency::fingerprint {
namespace {

// Fetched once: EVP_sha256() looks the algorithm up at each use, which costs more than hashing
// 500 bytes. Never freed, since threads may outlive static destructors.
const EVP_MD* algorithm() {
  static const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
  return fetched;
}

}  // namespace

Sha256::Context& Sha256::spare() {
  thread_local Context context;
  return context;
}

Sha256::Sha256() : context_(std::move(spare())) {
  if (context_ == nullptr) {
    context_.reset(EVP_MD_CTX_new());
  }
  ok_ = context_ != nullptr && algorithm() != nullptr &&
        EVP_DigestInit_ex2(context_.get(), algorithm(), nullptr) == 1;
}

Sha256::~Sha256() {
  spare() = std::move(context_);
}

void Sha256::update(std::string_view bytes) {
  ok_ = ok_ && EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
}

std::optional<Sha256Digest> Sha256::finish() {
  Sha256Digest digest;
  if (!ok_ || EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) != 1) {
    return std::nullopt;
  }
  ok_ = false;
  return digest;
}

}  // namespace idempotency::fingerprint
