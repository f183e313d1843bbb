// The input is a request file of `idempotencyctl fingerprint diff`.

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "source/cli/printable.h"
#include "source/cli/request_text.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

std::string write(const cli::RequestText& request) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\n", request.method, request.path);
  for (const auto& [name, value] : request.headers) {
    text += fmt::format("{}: {}\r\n", name, value);
  }
  return text + "\r\n" + request.body;
}

// A request survives being written and read again.
void checkAccepted(std::string_view text, const cli::RequestText& request) {
  FUZZ_CHECK(text.ends_with(request.body));
  const auto again = cli::parseRequestText(write(request));
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(again->method == request.method && again->path == request.path);
  FUZZ_CHECK(again->headers == request.headers && again->body == request.body);
  const auto lines = [&request](std::string_view name) {
    return std::count_if(request.headers.begin(), request.headers.end(),
                         [name](const auto& header) { return header.first == name; });
  };
  FUZZ_CHECK(cli::contentType(request).ok() == (lines("content-type") < 2));
  FUZZ_CHECK(cli::authority(request).ok() == (lines("host") < 2));
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const std::string_view text = fuzzText(data, size);
  const auto request = cli::parseRequestText(text);
  if (request.ok()) {
    checkAccepted(text, *request);
  } else {
    // The message goes to a terminal.
    FUZZ_CHECK(cli::isPrintable(std::string(request.status().message())));
  }
  FUZZ_CHECK(cli::isPrintable(cli::escaped(text)) && cli::isPrintable(cli::printable(text)));
  FUZZ_CHECK(cli::isPrintable(text) == (cli::printable(text) == text));
  return 0;
}
