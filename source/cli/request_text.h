#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

namespace idempotency::cli {

// A request from a file or the command line, checked to the extent that it could have been sent.
struct RequestText {
  std::string method;
  std::string path;  // With the query, as in Envoy's `:path`.
  std::vector<std::pair<std::string, std::string>>
      headers;  // Names in lower case, values without outer spaces.
  std::string body;
};

// Parses the text of an HTTP/1.1 request: request line, header lines, an empty line, and the body,
// which is everything that follows, byte for byte. Lines end with LF or CRLF. Fails, and names the
// line, on any other form, on a body whose length differs from Content-Length, and on
// Transfer-Encoding, because the body is given unencoded.
absl::StatusOr<RequestText> parseRequestText(std::string_view text);

// One header line, `Name: value`.
absl::StatusOr<std::pair<std::string, std::string>> parseHeaderLine(std::string_view line);

absl::Status checkMethod(std::string_view method);
absl::Status checkPath(std::string_view path);

// The values of Content-Type and Host; none if there is no such line. Fail if there are two.
absl::StatusOr<std::optional<std::string_view>> contentType(const RequestText& request);
absl::StatusOr<std::optional<std::string_view>> authority(const RequestText& request);

}  // namespace idempotency::cli
