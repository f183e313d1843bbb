#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

namespace idempotency {

// A request that stands in a file or on the command line, checked so far that it could have been
// sent.
struct RequestText {
  std::string method;
  std::string path;  // With the query, as in Envoy's `:path`.
  std::vector<std::pair<std::string, std::string>>
      headers;  // Names in lower case, values without outer spaces.
  std::string body;
};

// Reads the text of an HTTP/1.1 request: request line, header lines, an empty line, and then the
// body, which is all the rest, byte for byte. Lines end with LF or CRLF. Fails, naming the line, on
// what is not of this form, on a body that is not as long as Content-Length says, and on
// Transfer-Encoding, since the body stands here as it is.
absl::StatusOr<RequestText> parseRequestText(std::string_view text);

// One header line, `Name: value`.
absl::StatusOr<std::pair<std::string, std::string>> parseHeaderLine(std::string_view line);

absl::Status checkMethod(std::string_view method);
absl::Status checkPath(std::string_view path);

// The value of Content-Type, empty if there is none. Fails if there are two.
absl::StatusOr<std::string_view> contentType(const RequestText& request);

}  // namespace idempotency
