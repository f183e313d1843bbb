#include "source/cli/resolution.h"

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

#include <absl/status/status.h>

#include "source/cli/input_file.h"
#include "source/cli/printable.h"
#include "source/http/header_names.h"
#include "source/http/status_set.h"
#include "source/message/headers.h"
#include "source/message/stored_response.h"
#include "source/protocol/ending.h"
#include "source/protocol/record.h"

namespace idempotency::cli {
namespace {

constexpr int MinFinalStatus = 200;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

absl::StatusOr<protocol::FieldList> readHeaders(const Arguments& arguments) {
  protocol::FieldList headers;
  for (const std::string_view line : arguments.values("header")) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) {
      return absl::InvalidArgumentError(
          fmt::format("not a header such as 'Name: value': {}", printable(line)));
    }
    std::string name = http::toLower(line.substr(0, colon));
    std::string value(trimmed(line.substr(colon + 1)));
    if (!message::isSafeField(name, value)) {
      return absl::InvalidArgumentError(
          fmt::format("not a header such as 'Name: value': {}", printable(line)));
    }
    if (message::isNeverStored(name)) {
      return absl::InvalidArgumentError(
          fmt::format("--header {}: this header is never stored", printable(name)));
    }
    headers.emplace_back(std::move(name), std::move(value));
  }
  return headers;
}

absl::StatusOr<store::OperatorAction> readCompleted(const Arguments& arguments) {
  const auto status = arguments.number("status", MinFinalStatus, http::MaxStatus, 0);
  if (!status.ok()) {
    return status.status();
  }
  auto headers = readHeaders(arguments);
  if (!headers.ok()) {
    return headers.status();
  }
  protocol::StoredResponse response = {.status = static_cast<int32_t>(*status),
                                       .headers = *std::move(headers),
                                       .body = {},
                                       .trailers = {}};
  if (const auto file = arguments.value("body-file"); file.has_value()) {
    auto body = readInputFile(*file);
    if (!body.ok()) {
      return body.status();
    }
    response.body = *std::move(body);
  }
  std::string bytes = message::serializeResponse(response);
  // What the filter could not read must not be stored.
  if (const auto parsed = message::parseResponse(bytes); !parsed.ok()) {
    return absl::InvalidArgumentError(parsed.status().message());
  }
  return protocol::Completed{.status = response.status,
                             .tombstone = protocol::Tombstone::None,
                             .response_schema = protocol::ResponseSchema,
                             .response = std::move(bytes),
                             .ttl = std::nullopt};
}

}  // namespace

absl::StatusOr<store::OperatorAction> readResolution(const Arguments& arguments) {
  const bool completed = arguments.has("status");
  if (arguments.has("not-run") == completed) {
    return absl::InvalidArgumentError(
        "say what became of the request: --status N if it ran, or --not-run");
  }
  if (completed) {
    return readCompleted(arguments);
  }
  if (arguments.has("header") || arguments.has("body-file")) {
    return absl::InvalidArgumentError("--header and --body-file require --status");
  }
  return store::NotRun{};
}

}  // namespace idempotency::cli
