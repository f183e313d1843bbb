#include "source/cli/fingerprint_options.h"

#include <array>
#include <fmt/format.h>
#include <optional>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "source/cli/printable.h"
#include "source/http/header_names.h"

namespace idempotency::cli {
namespace {

absl::Status usageError(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

std::optional<fingerprint::FingerprintMode> modeNamed(std::string_view name) {
  if (name == "canonical") {
    return fingerprint::FingerprintMode::Canonical;
  }
  if (name == "raw") {
    return fingerprint::FingerprintMode::Raw;
  }
  if (name == "selected") {
    return fingerprint::FingerprintMode::Selected;
  }
  if (name == "none") {
    return fingerprint::FingerprintMode::None;
  }
  return std::nullopt;
}

absl::Status readPointers(const Arguments& arguments, std::string_view option,
                          fingerprint::JsonPointerSet& pointers) {
  for (const std::string_view text : arguments.values(option)) {
    const auto pointer = fingerprint::JsonPointer::parse(text);
    if (!pointer.ok()) {
      return usageError(fmt::format("--{} is '{}', which is not a JSON Pointer: {}", option,
                                    printable(text),
                                    printable(std::string(pointer.status().message()))));
    }
    pointers.push_back(*pointer);
  }
  return absl::OkStatus();
}

absl::Status readHeaderNames(const Arguments& arguments, std::vector<std::string>& names) {
  for (const std::string_view name : arguments.values(CountHeaderOption.name)) {
    if (!http::isToken(name)) {
      return usageError(
          fmt::format("--{} is not a header name: {}", CountHeaderOption.name, printable(name)));
    }
    if (http::isHostHeader(http::toLower(name))) {
      return usageError(fmt::format("--{} is {}, which is compared unless --{} is set",
                                    CountHeaderOption.name, name, NoAuthorityOption.name));
    }
    names.push_back(http::toLower(name));
  }
  return absl::OkStatus();
}

absl::Status readQueryOrder(const Arguments& arguments, fingerprint::QueryOrder& order) {
  const std::string_view name = arguments.value(QueryOption.name).value_or("sorted");
  if (name != "sorted" && name != "as-sent") {
    return usageError(
        fmt::format("--{} is {}; must be sorted or as-sent", QueryOption.name, printable(name)));
  }
  order = name == "sorted" ? fingerprint::QueryOrder::Sorted : fingerprint::QueryOrder::AsSent;
  return absl::OkStatus();
}

absl::Status checkTogether(const fingerprint::FingerprintRules& rules) {
  if (rules.mode == fingerprint::FingerprintMode::Selected && rules.pointers.empty()) {
    return usageError("--mode selected requires at least one --pointer");
  }
  if (rules.mode != fingerprint::FingerprintMode::Selected && !rules.pointers.empty()) {
    return usageError("--pointer requires --mode selected");
  }
  if (rules.mode != fingerprint::FingerprintMode::Canonical && !rules.exclude_pointers.empty()) {
    return usageError("--exclude-pointer requires --mode canonical");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<fingerprint::FingerprintRules> readFingerprintRules(const Arguments& arguments) {
  fingerprint::FingerprintRules rules;
  const std::string_view name = arguments.value(ModeOption.name).value_or("canonical");
  const auto mode = modeNamed(name);
  if (!mode) {
    return usageError(
        fmt::format("--mode is {}; must be canonical, raw, selected or none", printable(name)));
  }
  rules.mode = *mode;
  absl::Status status = readPointers(arguments, PointerOption.name, rules.pointers);
  status.Update(readPointers(arguments, ExcludePointerOption.name, rules.exclude_pointers));
  status.Update(readHeaderNames(arguments, rules.headers));
  status.Update(readQueryOrder(arguments, rules.query));
  rules.authority = !arguments.has(NoAuthorityOption.name);
  status.Update(checkTogether(rules));
  if (!status.ok()) {
    return status;
  }
  return rules;
}

absl::StatusOr<FingerprintView> readFingerprintView(const Arguments& arguments) {
  FingerprintView view;
  view.scheme = arguments.value(SchemeOption.name).value_or("https");
  if (view.scheme != "http" && view.scheme != "https") {
    return usageError(fmt::format("--{} is {}; must be http or https", SchemeOption.name,
                                  printable(view.scheme)));
  }
  const auto version =
      arguments.number(AlgorithmOption.name, fingerprint::OldestFingerprintVersion,
                       fingerprint::FingerprintVersion, fingerprint::FingerprintVersion);
  if (!version.ok()) {
    return version.status();
  }
  if (arguments.has(AlgorithmOption.name)) {
    view.version = static_cast<uint8_t>(*version);
  }
  return view;
}

absl::StatusOr<fingerprint::FingerprintExplanation> explainRequest(
    const RequestText& request, const fingerprint::FingerprintRules& rules,
    const FingerprintView& view, std::string_view principal) {
  const auto content_type = contentType(request);
  const auto host = authority(request);
  absl::Status status = content_type.status();
  status.Update(host.status());
  if (!status.ok()) {
    return status;
  }
  std::vector<fingerprint::RequestHeader> headers;
  for (const auto& [name, value] : request.headers) {
    headers.push_back({name, value});
  }
  const std::array<std::string_view, 1> body = {request.body};
  auto explanation = fingerprint::explainFingerprint(
      {.method = request.method,
       .scheme = view.scheme,
       .authority = *host,
       .path = request.path,
       .content_type = *content_type,
       .headers = headers,
       .principal = principal,
       .body = body},
      rules, view.version.value_or(fingerprint::FingerprintVersion));
  if (!explanation) {
    return absl::InternalError("the hash function failed");
  }
  return *std::move(explanation);
}

}  // namespace idempotency::cli
