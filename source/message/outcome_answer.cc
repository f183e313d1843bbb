#include "source/message/outcome_answer.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <simdjson.h>

#include "source/http/header_names.h"
#include "source/http/status_set.h"
#include "source/message/headers.h"
#include "source/message/stored_response.h"
#include "source/protocol/declared_outcome.h"
#include "source/protocol/policy.h"
#include "source/protocol/proxy_evidence.h"

namespace idempotency::message {
namespace {

using simdjson::dom::element;

constexpr int MinFinalStatus = 200;

std::vector<protocol::FieldView> viewOf(const protocol::FieldList& fields) {
  return {fields.begin(), fields.end()};
}

absl::Status unusable(std::string_view part, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", part, why));
}

bool isFinal(int64_t status) {
  return status >= MinFinalStatus && status <= http::MaxStatus;
}

absl::StatusOr<int> statusAt(const element& root, const fingerprint::JsonPointer& pointer) {
  int64_t status = 0;
  if (root.at_pointer(pointer.text()).get_int64().get(status) != simdjson::SUCCESS) {
    return unusable("status", "not an integer");
  }
  if (!isFinal(status)) {
    return unusable("status", "not a final HTTP status");
  }
  return static_cast<int>(status);
}

// One field's value, or its lines.
bool addField(std::string_view name, const element& value, protocol::FieldList& fields) {
  std::string_view text;
  if (value.get_string().get(text) == simdjson::SUCCESS) {
    fields.emplace_back(http::toLower(name), text);
    return true;
  }
  simdjson::dom::array lines;
  if (value.get_array().get(lines) != simdjson::SUCCESS) {
    return false;
  }
  for (const element line : lines) {
    if (line.get_string().get(text) != simdjson::SUCCESS) {
      return false;
    }
    fields.emplace_back(http::toLower(name), text);
  }
  return true;
}

absl::StatusOr<protocol::FieldList> headersAt(const element& root,
                                              const fingerprint::JsonPointer& pointer) {
  simdjson::dom::object object;
  if (root.at_pointer(pointer.text()).get_object().get(object) != simdjson::SUCCESS) {
    return unusable("headers", "not an object");
  }
  protocol::FieldList fields;
  for (const auto [name, value] : object) {
    if (!addField(name, value, fields)) {
      return unusable("headers", "a value is neither a string nor a list of strings");
    }
  }
  return fields;
}

// A value as it stands in the text.
std::optional<std::string> rawValueAt(std::string_view json, const std::string& pointer) {
  const simdjson::padded_string padded(json);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  if (pointer.empty()) {
    return std::string(json);
  }
  simdjson::ondemand::value value;
  simdjson::ondemand::json_type type{};
  if (document.at_pointer(pointer).get(value) != simdjson::SUCCESS ||
      value.type().get(type) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  std::string_view text;
  simdjson::error_code error = simdjson::SUCCESS;
  if (type == simdjson::ondemand::json_type::object) {
    simdjson::ondemand::object object;
    error = value.get_object().get(object);
    error = error ? error : object.raw_json().get(text);
  } else if (type == simdjson::ondemand::json_type::array) {
    simdjson::ondemand::array array;
    error = value.get_array().get(array);
    error = error ? error : array.raw_json().get(text);
  } else {
    text = value.raw_json_token();
  }
  if (error != simdjson::SUCCESS) {
    return std::nullopt;
  }
  return std::string(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
}

// A string is the body itself; null is an empty one; any other value is the body as it is written.
absl::StatusOr<std::string> bodyAt(const element& root, std::string_view json,
                                   const fingerprint::JsonPointer& pointer) {
  element value;
  if (root.at_pointer(pointer.text()).get(value) != simdjson::SUCCESS) {
    return unusable("body", "missing");
  }
  std::string_view text;
  if (value.get_string().get(text) == simdjson::SUCCESS) {
    return std::string(text);
  }
  if (value.is_null()) {
    return std::string();
  }
  std::optional<std::string> raw = rawValueAt(json, pointer.text());
  if (!raw.has_value()) {
    return unusable("body", "cannot be read");
  }
  return *std::move(raw);
}

// The parts that the pointers name, over the answer's own.
absl::Status take(const protocol::ResponsePointers& pointers, const std::string& json,
                  protocol::StoredResponse& response) {
  if (!pointers.status.has_value() && !pointers.headers.has_value() && !pointers.body.has_value()) {
    return absl::OkStatus();
  }
  simdjson::dom::parser parser;
  element root;
  if (parser.parse(json).get(root) != simdjson::SUCCESS) {
    return unusable("answer", "not JSON");
  }
  if (pointers.status.has_value()) {
    const absl::StatusOr<int> status = statusAt(root, *pointers.status);
    if (!status.ok()) {
      return status.status();
    }
    response.status = *status;
  }
  if (pointers.headers.has_value()) {
    absl::StatusOr<protocol::FieldList> headers = headersAt(root, *pointers.headers);
    if (!headers.ok()) {
      return headers.status();
    }
    response.headers = *std::move(headers);
  }
  if (pointers.body.has_value()) {
    absl::StatusOr<std::string> body = bodyAt(root, json, *pointers.body);
    if (!body.ok()) {
      return body.status();
    }
    response.body = *std::move(body);
  }
  return absl::OkStatus();
}

protocol::DeclaredOutcome declaredIn(const protocol::FieldList& headers) {
  std::vector<std::string_view> lines;
  for (const auto& [name, value] : headers) {
    if (name == http::OutcomeHeader) {
      lines.emplace_back(value);
    }
  }
  return protocol::parseDeclaredOutcome(lines);
}

protocol::ProxyEvidence evidenceIn(const OutcomeAnswer& answer) {
  if (!protocol::isError(answer.status)) {
    return protocol::ProxyEvidence::None;
  }
  const std::vector<protocol::FieldView> headers = viewOf(answer.headers);
  return protocol::proxyEvidence(
      {.status = answer.status,
       .headers = headers,
       .text = std::string_view(answer.body).substr(0, protocol::EnoughText)});
}

}  // namespace

protocol::SeenAnswer observe(const protocol::ReconcileSettings& settings,
                             const OutcomeAnswer& answer, std::chrono::milliseconds claim_age) {
  protocol::SeenAnswer seen;
  seen.claim_age = claim_age;
  seen.came = answer.failure.empty();
  if (seen.came) {
    seen.status = answer.status;
    seen.declared = declaredIn(answer.headers);
    seen.proxy = evidenceIn(answer);
    seen.has_body = !answer.body.empty();
    seen.usable = resultOf(settings, answer).ok();
  }
  return seen;
}

absl::StatusOr<protocol::Completed> resultOf(const protocol::ReconcileSettings& settings,
                                             const OutcomeAnswer& answer) {
  protocol::StoredResponse response{
      .status = answer.status, .headers = answer.headers, .body = answer.body, .trailers = {}};
  if (const absl::Status taken = take(settings.response, answer.body, response); !taken.ok()) {
    return taken;
  }
  if (!isFinal(response.status)) {
    return unusable("status", "not a final HTTP status");
  }
  // What a route stores in addition to the rules for all, its policy says; that is not known here.
  std::optional<protocol::FieldList> headers =
      fieldsToStore(protocol::Policy(), viewOf(response.headers));
  if (!headers.has_value()) {
    return unusable("headers", "a field that must not be replayed");
  }
  response.headers = *std::move(headers);
  protocol::Completed completed;
  completed.status = response.status;
  completed.response_schema = protocol::ResponseSchema;
  if (!settings.store_response) {
    completed.tombstone = protocol::Tombstone::Secret;
  } else if (response.body.size() > settings.max_response_bytes) {
    completed.tombstone = protocol::Tombstone::TooLarge;
  } else {
    completed.response = serializeResponse(response);
    // What the filter could not read must not be stored.
    if (!parseResponse(completed.response).ok()) {
      return unusable("response", "too large, or too many headers");
    }
  }
  return completed;
}

std::string describe(const protocol::AnswerRule& rule, const OutcomeAnswer& answer) {
  return answer.failure.empty() ? fmt::format("{} (status {})", rule.name, answer.status)
                                : fmt::format("{} ({})", rule.name, answer.failure);
}

}  // namespace idempotency::message
