#pragma once

#include <span>
#include <string>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency::message {

// A complete request, as Envoy's filters see it: names in lower case, with pseudo headers.
struct ForwardedRequest {
  std::span<const protocol::FieldView> headers;
  std::span<const std::string_view> body;  // In pieces.
  std::span<const protocol::FieldView> trailers;
  bool ends_with_headers = false;  // Nothing followed them, not even an empty body.
};

// The request as HTTP/1.1 for the private listener, on a connection for this request alone. `run`
// is the value of the header that identifies the run. The framing is such that the upstream sees
// the same as without the private listener: a length if the request had one, else chunks. Empty
// if a field, the method or the path would change what the message means (see isSafeField). A path
// that needs escapes has them.
std::string serializeForRun(const ForwardedRequest& request, std::string_view run);

// Whether a path has bytes beyond ASCII. HTTP/2 allows them, but Envoy does not take them in
// HTTP/1.1.
bool needsEscapes(std::string_view path);

}  // namespace idempotency::message
