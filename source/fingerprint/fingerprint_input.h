#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/json_pointer_set.h"

namespace idempotency {

// How a body counts. In all modes but None, method, path, query (sorted by name) and media type
// count as well, and the headers and the principal by FingerprintRules.
enum class FingerprintMode : uint8_t {
  Canonical,  // JSON bodies by RFC 8785, others by their bytes.
  Raw,        // Every body by its bytes.
  Selected,   // Of JSON bodies only the values that `pointers` name; others by their bytes.
  None,       // Only that a key was used: every request of an identity is alike.
};

// What of a request counts when two requests with one key are compared. Made once, from the config.
// Order and repetition of headers and pointers do not matter.
struct FingerprintRules {
  FingerprintMode mode = FingerprintMode::Canonical;
  std::vector<std::string> headers = {};  // Lower-case names of request headers that count.

  // Selected: the values that count. A value that is not there is one of its own, other than null.
  JsonPointerSet pointers = {};

  // Canonical: the values that do not count; whether they are there does not count either. Array
  // elements are counted as in the body that was sent.
  JsonPointerSet exclude_pointers = {};

  bool principal = false;  // Whether RequestParts::principal counts.
};

struct RequestHeader {
  std::string_view name;  // Lower-case.
  std::string_view value;
};

// The request as the filter saw it. Views: the caller keeps the bytes alive for the call.
struct RequestParts {
  std::string_view method = {};
  std::string_view path = {};                   // With the query, as in `:path`.
  std::string_view content_type = {};           // Empty: none.
  std::span<const RequestHeader> headers = {};  // In any order; repeated names keep their order.
  std::string_view principal = {};
  std::span<const std::string_view> body = {};  // The body's slices in order.
};

// How the body entered the fingerprint: for the counters and for `idempotencyctl fingerprint
// --explain`.
enum class BodyForm : uint8_t {
  Empty,
  Bytes,          // Not JSON, or mode Raw.
  CanonicalJson,  // By RFC 8785.
  RejectedJson,   // Said to be JSON, but is not, or not safely so: compared by its bytes.
  SelectedJson,
  Ignored,  // Mode None.
};

}  // namespace idempotency
