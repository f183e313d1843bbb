#include "source/protocol/fingerprint_match.h"

#include <algorithm>

namespace idempotency::protocol {
namespace {

bool sameBytes(std::string_view stored, const fingerprint::Fingerprint& fingerprint) {
  return std::equal(stored.begin(), stored.end(), fingerprint.begin(), fingerprint.end(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

}  // namespace

FingerprintMatch matchFingerprint(std::string_view stored, const fingerprint::Fingerprint& current,
                                  const Recompute& recompute) {
  if (stored.size() != fingerprint::FingerprintSize) {
    return FingerprintMatch::Unverifiable;
  }
  const auto version = static_cast<uint8_t>(stored.front());
  const std::optional<fingerprint::Fingerprint> mine =
      version == current.front() ? std::optional(current) : recompute(version);
  if (!mine.has_value()) {
    return FingerprintMatch::Unverifiable;
  }
  return sameBytes(stored, *mine) ? FingerprintMatch::Same : FingerprintMatch::Different;
}

}  // namespace idempotency::protocol
