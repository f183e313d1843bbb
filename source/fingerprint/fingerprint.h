#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/json_pointer.h"

namespace idempotency {

enum class FingerprintMode : uint8_t {
  Canonical,  // JSON bodies by RFC 8785, others by their bytes.
  Raw,        // Every body by its bytes.
  Selected,   // Only the values that `pointers` name.
  None,       // Only that a key was used: every request of an identity is alike.
};

// What of a request counts when two requests with one key are compared. Made once, from the config.
struct FingerprintRules {
  FingerprintMode mode = FingerprintMode::Canonical;
  std::vector<std::string> headers;           // Lower-case names of request headers that count.
  std::vector<JsonPointer> pointers;          // Selected: the values that count.
  std::vector<JsonPointer> exclude_pointers;  // Canonical: the values that do not count.
  bool principal = false;                     // Whether RequestParts::principal counts.
};

struct RequestHeader {
  std::string_view name;  // Lower-case.
  std::string_view value;
};

// The request as the filter saw it. Views: the caller keeps the bytes alive for the call.
struct RequestParts {
  std::string_view method;
  std::string_view path;  // With the query, as in `:path`.
  std::string_view content_type;
  std::span<const RequestHeader> headers;  // In any order; repeated names keep their order.
  std::string_view principal;
  std::span<const std::string_view> body;  // The body's slices in order.
};

// How the body entered the fingerprint: for the counters and for `idempotencyctl fingerprint --explain`.
enum class BodyForm : uint8_t {
  Empty,
  Bytes,          // Not JSON, or mode Raw.
  CanonicalJson,  // By RFC 8785.
  RejectedJson,   // Said to be JSON, but is not, or not safely so: compared by its bytes.
  SelectedJson,
  Ignored,        // Mode None.
};

// Version byte first, then SHA-256. Equal fingerprints mean: the same request.
inline constexpr size_t FingerprintSize = 33;
using Fingerprint = std::array<uint8_t, FingerprintSize>;
inline constexpr uint8_t FingerprintVersion = 1;

struct FingerprintResult {
  Fingerprint fingerprint;
  BodyForm body_form;
};

// Computes the fingerprint by the given version of the algorithm; none if this build does not know that version.
// A record that an older build stored is compared by the version in its first byte.
[[nodiscard]] std::optional<FingerprintResult> computeFingerprint(
    const RequestParts& parts, const FingerprintRules& rules, uint8_t version = FingerprintVersion);

}  // namespace idempotency
