#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace idempotency::operator_client {

// The address of an API: scheme, host, port and the filter's prefix, without a slash at the end.
struct BaseUrl {
  std::string text;
  bool is_tls = false;
};

// Reads what an operator writes: http or https; without a path, the prefix is /idempotency. An
// error, InvalidArgument, if it holds a user or a password, which other users of the machine could
// see, or a query or a fragment, which a base has not. It never shows the text.
[[nodiscard]] absl::StatusOr<BaseUrl> parseBaseUrl(const std::string& text);

}  // namespace idempotency::operator_client
