#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/json_pointer_set.h"
#include "source/fingerprint/query.h"

namespace idempotency::fingerprint {

// Request headers that change the meaning of a request. In version 2 they are compared if the
// request has them, in all modes but None. Sorted.
inline constexpr std::array<std::string_view, 4> AlwaysCountedHeaders = {
    "content-encoding", "if-match", "if-none-match", "if-unmodified-since"};

// How a body is compared. In all modes but None, the method, path, query, media type and the
// headers above are compared as well; the authority, other headers and the principal according to
// FingerprintRules.
enum class FingerprintMode : uint8_t {
  Canonical,  // JSON bodies by RFC 8785, others by their bytes.
  Raw,        // Every body by its bytes.
  Selected,   // Of JSON bodies only the values that `pointers` name; others by their bytes.
  None,       // Nothing: all requests with the same identity are the same.
};

// Which parts of two requests with the same key are compared. Created once, from the config. Order
// and repetition of headers and pointers do not matter.
struct FingerprintRules {
  FingerprintMode mode = FingerprintMode::Canonical;
  std::vector<std::string> headers = {};  // Names of request headers to compare, in lower case.

  // Selected: the values that are compared. A missing value is a value of its own, different from
  // null.
  JsonPointerSet pointers = {};

  // Canonical: the values that are ignored, whether they are present or not. Indexes of array
  // elements refer to the body as sent.
  JsonPointerSet exclude_pointers = {};

  bool principal = false;  // Whether RequestParts::principal is compared.

  // Version 1 supports neither: it ignores the authority, and sorts every query.
  bool authority = true;                  // Whether RequestParts::authority is compared.
  QueryOrder query = QueryOrder::Sorted;  // Whether the order of parameters matters.
};

struct RequestHeader {
  std::string_view name;  // Lower-case.
  std::string_view value;
};

// The request as the filter sees it. Views: the caller keeps the bytes alive during the call.
struct RequestParts {
  std::string_view method = {};
  std::string_view scheme = {};  // Not compared; determines the default port.
  std::optional<std::string_view> authority = {};
  std::string_view path = {};  // With the query, as in `:path`.
  std::optional<std::string_view> content_type = {};
  // At least all lines that are compared. In any order, but lines with the same name keep theirs.
  std::span<const RequestHeader> headers = {};
  std::string_view principal = {};
  std::span<const std::string_view> body = {};  // The body's slices in order.
};

// How the body was included in the fingerprint, for the counters and for `idempotencyctl
// fingerprint --explain`.
enum class BodyForm : uint8_t {
  Empty,
  Bytes,          // Not JSON, or mode Raw.
  CanonicalJson,  // By RFC 8785.
  RejectedJson,   // Declared as JSON, but invalid or not safe to canonicalize: its bytes.
  SelectedJson,
  Ignored,  // Mode None.
};

}  // namespace idempotency::fingerprint
