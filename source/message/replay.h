#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency::message {

// A stored response as it is sent again. The body is a view into the stored response.
struct ReplayMessage {
  int status = 0;
  protocol::FieldList headers = {};  // Without pseudo-headers.
  std::string_view body = {};
  protocol::FieldList trailers = {};
};

struct ReplayContext {
  bool head = false;                       // The request's method is HEAD: no body.
  bool replayed = true;                    // Not the answer of the attempt itself.
  bool no_store = false;                   // No cache may keep it: it answers a GET request.
  std::optional<int64_t> expires_at = {};  // When the record expires, in seconds since 1970.
};

// Builds a replay: the stored headers in their order, then the content-length of the stored body (a
// wrong one would break the connection), Idempotent-Replayed if it is one, and
// Idempotency-Key-Expires, both readable by scripts in browsers. No body and no content-length for HEAD, 204, 205 and 304; no
// content-length with trailers or for gRPC. With no_store, that is its only cache-control.
//
// None if the response must not be sent: its status is not final, or a field is not safe (see
// isSafeField). The request then gets ResponseUnavailable.
[[nodiscard]] std::optional<ReplayMessage> buildReplay(const protocol::StoredResponse& response,
                                                       const ReplayContext& context);

}  // namespace idempotency::message
