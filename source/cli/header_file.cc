#include "source/cli/header_file.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include <absl/status/status.h>

#include "source/cli/input_file.h"
#include "source/cli/printable.h"
#include "source/http/header_names.h"
#include "source/message/headers.h"

namespace idempotency::cli {
namespace {

constexpr size_t LongestFile = 65'536;
constexpr std::string_view Space = " \t\r";

// What the client itself says about the body and the connection.
constexpr std::array<std::string_view, 7> Reserved = {
    "accept", "connection", "content-length", "content-type", "expect", "te", "transfer-encoding"};

std::string_view trimmed(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(Space), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(Space) + 1);
}

// What is wrong with the line; empty: nothing.
std::string_view mistake(std::string_view name, std::string_view value) {
  const std::string lower = http::toLower(name);
  if (value.empty() || !message::isSafeField(lower, value)) {
    return "is not a header such as 'Name: value'";
  }
  return std::ranges::find(Reserved, lower) == Reserved.end() ? ""
                                                              : "has a header that cannot be set";
}

}  // namespace

absl::StatusOr<std::vector<std::string>> readHeaderFile(std::string_view name) {
  const auto text = readInputFile(name, LongestFile);
  if (!text.ok()) {
    return text.status();
  }
  std::vector<std::string> headers;
  size_t number = 0;
  for (std::string_view rest = *text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.empty()) {
      continue;
    }
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string_view value = trimmed(line.substr(std::min(colon + 1, line.size())));
    if (const std::string_view wrong = mistake(line.substr(0, colon), value); !wrong.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("--header-file {}: line {} {}", printable(name), number, std::string(wrong)));
    }
    headers.push_back(fmt::format("{}: {}", line.substr(0, colon), value));
  }
  return headers;
}

}  // namespace idempotency::cli
