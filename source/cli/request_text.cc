#include "source/cli/request_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>

#include <absl/status/status.h>

#include "source/cli/printable.h"
#include "source/http/header_names.h"

namespace idempotency::cli {
namespace {

absl::Status badInput(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

bool isControl(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte < 0x20 || byte == 0x7f;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view Spaces = " \t";
  const size_t first = text.find_first_not_of(Spaces);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(Spaces) - first + 1);
}

// Takes lines off the front of a text.
class LineReader {
public:
  explicit LineReader(std::string_view text) : rest_(text) {}

  // The next line without its end; none if no line end is left.
  std::optional<std::string_view> next() {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    ++number_;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    return line;
  }
  size_t number() const { return number_; }
  std::string_view rest() const { return rest_; }

private:
  std::string_view rest_;
  size_t number_ = 0;
};

// `POST /path HTTP/1.1`. The version is not used; only its format is checked.
absl::Status parseRequestLine(std::string_view line, RequestText& request) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last ||
      !line.substr(last + 1).starts_with("HTTP/")) {
    return badInput("not a request line such as 'POST /path HTTP/1.1'");
  }
  request.method = line.substr(0, first);
  request.path = line.substr(first + 1, last - first - 1);
  absl::Status status = checkMethod(request.method);
  status.Update(checkPath(request.path));
  return status;
}

absl::Status checkBody(const RequestText& request) {
  for (const auto& [name, value] : request.headers) {
    if (name == "transfer-encoding") {
      return badInput("Transfer-Encoding is not supported: omit it and write the body as it is");
    }
    if (name != "content-length") {
      continue;
    }
    size_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (error != std::errc() || end != value.data() + value.size() ||
        length != request.body.size()) {
      return badInput(fmt::format("Content-Length is {}, but the body has {} bytes",
                                  printable(value), request.body.size()));
    }
  }
  return absl::OkStatus();
}

// `shown` is the name as people write it.
absl::StatusOr<std::optional<std::string_view>> onlyValue(const RequestText& request,
                                                          std::string_view wanted,
                                                          std::string_view shown) {
  std::optional<std::string_view> found;
  for (const auto& [name, value] : request.headers) {
    if (name != wanted) {
      continue;
    }
    if (found) {
      return badInput(fmt::format("more than one {} header", shown));
    }
    found = value;
  }
  return found;
}

absl::Status atLine(size_t number, const absl::Status& status) {
  return badInput(fmt::format("line {}: {}", number, std::string(status.message())));
}

}  // namespace

absl::Status checkMethod(std::string_view method) {
  if (!http::isToken(method)) {
    return badInput(fmt::format("not an HTTP method: {}", printable(method)));
  }
  return absl::OkStatus();
}

absl::Status checkPath(std::string_view path) {
  const bool starts_well = path.starts_with('/') || path == "*";
  if (!starts_well ||
      std::any_of(path.begin(), path.end(), [](char c) { return c == ' ' || isControl(c); })) {
    return badInput(fmt::format("not a path such as '/orders?id=1': {}", printable(path)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::pair<std::string, std::string>> parseHeaderLine(std::string_view line) {
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || !http::isToken(name)) {
    return badInput(fmt::format("not a header such as 'Name: value': {}", printable(line)));
  }
  const std::string_view value = trim(line.substr(colon + 1));
  if (std::any_of(value.begin(), value.end(), [](char c) { return c != '\t' && isControl(c); })) {
    return badInput(fmt::format("header {} contains a control character", name));
  }
  return std::pair(http::toLower(name), std::string(value));
}

absl::StatusOr<RequestText> parseRequestText(std::string_view text) {
  LineReader lines(text);
  RequestText request;
  const auto first = lines.next();
  if (!first) {
    return badInput("no request line");
  }
  if (const absl::Status status = parseRequestLine(*first, request); !status.ok()) {
    return atLine(lines.number(), status);
  }
  while (true) {
    const auto line = lines.next();
    if (!line) {
      return badInput("no empty line after the headers");
    }
    if (line->empty()) {
      break;
    }
    auto header = parseHeaderLine(*line);
    if (!header.ok()) {
      return atLine(lines.number(), header.status());
    }
    request.headers.push_back(*std::move(header));
  }
  request.body = lines.rest();
  if (const absl::Status status = checkBody(request); !status.ok()) {
    return status;
  }
  return request;
}

absl::StatusOr<std::optional<std::string_view>> contentType(const RequestText& request) {
  return onlyValue(request, "content-type", "Content-Type");
}

absl::StatusOr<std::optional<std::string_view>> authority(const RequestText& request) {
  return onlyValue(request, "host", "Host");
}

}  // namespace idempotency::cli
