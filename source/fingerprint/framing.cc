#include "source/fingerprint/framing.h"

#include <cstring>

namespace idempotency::fingerprint {

void PartHasher::begin(PartKind kind, uint64_t size) {
  std::array<char, 1 + sizeof(size)> head;
  head[0] = static_cast<char>(kind);
  for (size_t i = 1; i < head.size(); ++i) {
    head[i] = static_cast<char>(size >> (8 * (sizeof(size) - i)));
  }
  append({head.data(), head.size()});
}

void PartHasher::append(std::string_view bytes) {
  if (bytes.size() > buffer_.size() - used_) {
    flush();
    if (bytes.size() >= buffer_.size() / 2) {
      sha_.update(bytes);
      return;
    }
  }
  if (!bytes.empty()) {
    std::memcpy(buffer_.data() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
  }
}

std::optional<Sha256Digest> PartHasher::finish() {
  flush();
  return sha_.finish();
}

void PartHasher::flush() {
  if (used_ != 0) {
    sha_.update({buffer_.data(), used_});
    used_ = 0;
  }
}

}  // namespace idempotency::fingerprint
