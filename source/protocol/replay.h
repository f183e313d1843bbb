#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency {

// A stored response as it goes out again. The body is a view into the stored response.
struct ReplayMessage {
  int status = 0;
  FieldList headers = {};  // Without pseudo headers.
  std::string_view body = {};
  FieldList trailers = {};
};

struct ReplayContext {
  bool head = false;                       // The request's method is HEAD: no body.
  std::optional<int64_t> expires_at = {};  // When the record ends, in seconds since 1970.
};

// Puts a replay together: the stored headers in their order, then a content-length of the stored
// body (a wrong one would break the connection), Idempotent-Replayed and Idempotency-Key-Expires,
// both readable by browsers' scripts. No body and no content-length for HEAD, 204, 205 and 304; no
// content-length where trailers follow or for gRPC.
//
// None if the response must not be sent: its status is not final, or a field is not safe (see
// isSafeField). The request then gets ResponseUnavailable.
[[nodiscard]] std::optional<ReplayMessage> buildReplay(const StoredResponse& response,
                                                       const ReplayContext& context);

}  // namespace idempotency
