#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "source/fingerprint/fingerprint_input.h"
#include "source/fingerprint/json_rejection.h"

namespace idempotency::fingerprint {

// Version byte first, then SHA-256. Equal fingerprints mean: the same request.
inline constexpr size_t FingerprintSize = 33;
using Fingerprint = std::array<uint8_t, FingerprintSize>;
// The version for new records, and the oldest version. All versions in between can be computed,
// because a record is compared by its own version as long as it exists. docs/fingerprint.md
// describes the differences.
inline constexpr uint8_t FingerprintVersion = 2;
inline constexpr uint8_t OldestFingerprintVersion = 1;

struct FingerprintResult {
  Fingerprint fingerprint;
  BodyForm body_form;
  JsonRejection rejection = JsonRejection::None;  // Why the body is RejectedJson.
};

// Computes the fingerprint by the given version of the algorithm. None if this build does not know
// the version, or if OpenSSL cannot hash: then the request cannot be compared, so refuse it. A
// record that an older build stored is compared by the version in its first byte.
[[nodiscard]] std::optional<FingerprintResult> computeFingerprint(
    const RequestParts& parts, const FingerprintRules& rules, uint8_t version = FingerprintVersion);

// A part of the hashed input.
struct FingerprintPart {
  std::string name;   // "method", "header x-source", "body (canonical JSON)", "body at '/amount'".
  std::string bytes;  // As hashed.
  bool operator==(const FingerprintPart&) const = default;
};

struct FingerprintExplanation {
  FingerprintResult result;
  std::vector<FingerprintPart> parts;  // In the order of hashing.
};

// The same fingerprint together with its input, for people. Two requests have the same fingerprint
// if and only if their parts are equal.
[[nodiscard]] std::optional<FingerprintExplanation> explainFingerprint(
    const RequestParts& parts, const FingerprintRules& rules, uint8_t version = FingerprintVersion);

}  // namespace idempotency::fingerprint
