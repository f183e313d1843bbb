#include "source/cli/fingerprint_options.h"

#include <array>
#include <fmt/format.h>
#include <optional>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "source/cli/printable.h"
#include "source/protocol/header_names.h"

namespace idempotency {
namespace {

absl::Status usageError(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

std::optional<FingerprintMode> modeNamed(std::string_view name) {
  if (name == "canonical") {
    return FingerprintMode::Canonical;
  }
  if (name == "raw") {
    return FingerprintMode::Raw;
  }
  if (name == "selected") {
    return FingerprintMode::Selected;
  }
  if (name == "none") {
    return FingerprintMode::None;
  }
  return std::nullopt;
}

absl::Status readPointers(const Arguments& arguments, std::string_view option,
                          JsonPointerSet& pointers) {
  for (const std::string_view text : arguments.values(option)) {
    const auto pointer = JsonPointer::parse(text);
    if (!pointer.ok()) {
      return usageError(fmt::format("--{} is '{}', which is no JSON Pointer: {}", option,
                                    printable(text),
                                    printable(std::string(pointer.status().message()))));
    }
    pointers.push_back(*pointer);
  }
  return absl::OkStatus();
}

absl::Status readHeaderNames(const Arguments& arguments, std::vector<std::string>& names) {
  for (const std::string_view name : arguments.values(CountHeaderOption.name)) {
    if (!isToken(name)) {
      return usageError(
          fmt::format("--{} is no header name: {}", CountHeaderOption.name, printable(name)));
    }
    names.push_back(toLower(name));
  }
  return absl::OkStatus();
}

absl::Status checkTogether(const FingerprintRules& rules) {
  if (rules.mode == FingerprintMode::Selected && rules.pointers.empty()) {
    return usageError("--mode selected needs at least one --pointer");
  }
  if (rules.mode != FingerprintMode::Selected && !rules.pointers.empty()) {
    return usageError("--pointer needs --mode selected");
  }
  if (rules.mode != FingerprintMode::Canonical && !rules.exclude_pointers.empty()) {
    return usageError("--exclude-pointer needs --mode canonical");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FingerprintRules> readFingerprintRules(const Arguments& arguments) {
  FingerprintRules rules;
  const std::string_view name = arguments.value(ModeOption.name).value_or("canonical");
  const auto mode = modeNamed(name);
  if (!mode) {
    return usageError(
        fmt::format("--mode is {}, must be canonical, raw, selected or none", printable(name)));
  }
  rules.mode = *mode;
  absl::Status status = readPointers(arguments, PointerOption.name, rules.pointers);
  status.Update(readPointers(arguments, ExcludePointerOption.name, rules.exclude_pointers));
  status.Update(readHeaderNames(arguments, rules.headers));
  status.Update(checkTogether(rules));
  if (!status.ok()) {
    return status;
  }
  return rules;
}

absl::StatusOr<FingerprintExplanation> explainRequest(const RequestText& request,
                                                      const FingerprintRules& rules,
                                                      std::string_view principal) {
  const auto content_type = contentType(request);
  if (!content_type.ok()) {
    return content_type.status();
  }
  std::vector<RequestHeader> headers;
  for (const auto& [name, value] : request.headers) {
    headers.push_back({name, value});
  }
  const std::array<std::string_view, 1> body = {request.body};
  auto explanation = explainFingerprint({.method = request.method,
                                         .path = request.path,
                                         .content_type = *content_type,
                                         .headers = headers,
                                         .principal = principal,
                                         .body = body},
                                        rules);
  if (!explanation) {
    return absl::InternalError("the hash function failed");
  }
  return *std::move(explanation);
}

}  // namespace idempotency
