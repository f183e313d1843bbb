#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>

#include "source/fingerprint/utf8.h"
#include "source/message/stored_response.h"
#include "source/operator_api/base64.h"
#include "source/operator_api/json_object.h"
#include "source/operator_api/json_writer.h"
#include "source/operator_api/record_id.h"
#include "source/operator_api/requests.h"
#include "source/operator_api/response_object.h"
#include "source/protocol/ending.h"
#include "source/protocol/overloaded.h"

namespace idempotency::operator_api {
namespace {

constexpr std::string_view CompletedOutcome = "completed";
constexpr std::string_view NotRunOutcome = "not_run";
constexpr std::chrono::milliseconds LongestTtl = std::chrono::days(30);
constexpr std::chrono::milliseconds LongestDelay = std::chrono::days(1);

bool isPlain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

std::string readReason(JsonObject& object) {
  std::string reason = object.text("reason");
  if (reason.find_first_not_of(' ') == std::string::npos) {
    object.fail("reason", "must not be empty");
  } else if (reason.size() > MaxReasonBytes || !isPlain(reason)) {
    object.fail("reason", "must be one line of at most 1000 bytes, without control characters");
  }
  return reason;
}

bool hasContent(JsonObject& response) {
  constexpr std::array<std::string_view, 4> Names = {"headers", "body", "body_base64", "trailers"};
  return std::any_of(Names.begin(), Names.end(),
                     [&](std::string_view name) { return response.has(name); });
}

protocol::Completed readCompleted(JsonObject& root) {
  protocol::Completed completed;
  completed.ttl = root.optionalSeconds("ttl_seconds");
  if (completed.ttl.has_value() &&
      (*completed.ttl < std::chrono::seconds(1) || *completed.ttl > LongestTtl)) {
    root.fail("ttl_seconds", "must be 1 to 2592000 seconds");
  }
  auto object = root.object("response");
  if (!object.has_value()) {
    root.fail("response", "is required with the outcome completed");
    return completed;
  }
  const bool unavailable = object->flag("unavailable");
  const protocol::StoredResponse response = readStorableResponse(*object);
  object->refuseOthers();
  completed.status = response.status;
  if (unavailable) {
    if (hasContent(*object)) {
      object->fail("unavailable", "goes with a status only");
    }
    completed.tombstone = protocol::Tombstone::Unstorable;
  } else {
    completed.response_schema = protocol::ResponseSchema;
    completed.response = message::serializeResponse(response);
    // What the filter could not read must not be stored.
    if (!message::parseResponse(completed.response).ok()) {
      root.fail("response", "is too large, or has too many headers");
    }
  }
  return completed;
}

store::OperatorAction readResolution(JsonObject& root) {
  const std::string outcome = root.text("outcome");
  if (outcome == CompletedOutcome) {
    return readCompleted(root);
  }
  if (outcome != NotRunOutcome) {
    root.fail("outcome", "must be completed or not_run");
  } else if (root.has("response") || root.has("ttl_seconds")) {
    root.fail("outcome", "not_run has neither response nor ttl_seconds");
  }
  return store::NotRun();
}

store::AskAgain readAskAgain(JsonObject& root) {
  store::AskAgain action;
  action.start_over = true;
  action.after = root.optionalSeconds("after_seconds").value_or(std::chrono::milliseconds(0));
  if (action.after > LongestDelay) {
    root.fail("after_seconds", "must be at most 86400 seconds");
  }
  return action;
}

store::OperatorAction readAction(ChangeKind kind, JsonObject& root) {
  switch (kind) {
    case ChangeKind::Resolve:
      return readResolution(root);
    case ChangeKind::AskAgain:
      return readAskAgain(root);
    case ChangeKind::Release:
      return store::Free();
    case ChangeKind::Bust:
      return store::Bust();
  }
  return store::NotRun();
}

void writeCompleted(const protocol::Completed& completed, JsonWriter& json) {
  json.text("outcome", CompletedOutcome);
  if (completed.ttl.has_value()) {
    json.seconds("ttl_seconds", *completed.ttl);
  }
  json.beginObject("response");
  json.number("status", completed.status);
  const auto response = message::parseResponse(completed.response);
  if (completed.tombstone == protocol::Tombstone::None && response.ok()) {
    writeResponseParts(*response, json);
  } else {
    json.flag("unavailable", true);
  }
  json.endObject();
}

void writeAction(const store::OperatorAction& action, JsonWriter& json) {
  std::visit(protocol::Overloaded{
                 [&](const protocol::Completed& completed) { writeCompleted(completed, json); },
                 [&](const store::NotRun&) { json.text("outcome", NotRunOutcome); },
                 [&](const store::AskAgain& again) { json.seconds("after_seconds", again.after); },
                 [](const store::Free&) {},
                 [](const store::Bust&) {},
                 [](const store::GiveUp&) {},
             },
             action);
}

std::string readTenant(JsonObject& root) {
  auto text = root.optionalText("tenant");
  const auto encoded = root.optionalText("tenant_base64");
  if (text.has_value() == encoded.has_value()) {
    root.fail("tenant", "set either tenant or tenant_base64");
  }
  if (!encoded.has_value()) {
    return std::move(text).value_or("");
  }
  auto bytes = fromBase64(*encoded);
  if (!bytes.has_value()) {
    root.fail("tenant_base64", "must be base64 with padding");
  }
  return std::move(bytes).value_or("");
}

// The record's id, or its three names, or nothing.
std::optional<protocol::Identity> readEventIdentity(JsonObject& root) {
  const bool named = root.has("tenant") || root.has("operation") || root.has("key");
  if (const auto id = root.optionalText("record")) {
    auto identity = parseRecordId(*id);
    if (!identity.has_value() || named) {
      root.fail("record", "must be the id of a record, without tenant, operation and key");
    }
    return identity;
  }
  if (!named) {
    return std::nullopt;
  }
  return protocol::Identity{root.optionalText("tenant").value_or(""),
                            root.optionalText("operation").value_or(""), root.text("key")};
}

}  // namespace

std::string_view pathSegment(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::Resolve:
      return "resolve";
    case ChangeKind::AskAgain:
      return "ask_again";
    case ChangeKind::Release:
      return "release";
    case ChangeKind::Bust:
      return "bust";
  }
  return "invalid";
}

std::optional<ChangeKind> parseChangeKind(std::string_view segment) {
  for (const ChangeKind kind :
       {ChangeKind::Resolve, ChangeKind::AskAgain, ChangeKind::Release, ChangeKind::Bust}) {
    if (pathSegment(kind) == segment) {
      return kind;
    }
  }
  return std::nullopt;
}

std::optional<ChangeKind> changeKind(const store::OperatorAction& action) {
  using Kind = std::optional<ChangeKind>;
  return std::visit(protocol::Overloaded{
                        [](const protocol::Completed&) -> Kind { return ChangeKind::Resolve; },
                        [](const store::NotRun&) -> Kind { return ChangeKind::Resolve; },
                        [](const store::AskAgain&) -> Kind { return ChangeKind::AskAgain; },
                        [](const store::Free&) -> Kind { return ChangeKind::Release; },
                        [](const store::Bust&) -> Kind { return ChangeKind::Bust; },
                        [](const store::GiveUp&) -> Kind { return std::nullopt; },
                    },
                    action);
}

absl::StatusOr<store::OperatorChange> parseChange(ChangeKind kind, std::string_view body) {
  const auto parsed = JsonText::parse(body);
  if (!parsed.ok()) {
    return parsed.status();
  }
  JsonErrors errors;
  JsonObject root = (*parsed)->root(errors);
  store::OperatorChange change;
  change.seen.attempt = root.attempt("attempt");
  change.reason = readReason(root);
  change.dry_run = root.flag("dry_run");
  change.action = readAction(kind, root);
  root.refuseOthers();
  if (!errors.empty()) {
    return errors.status();
  }
  return change;
}

absl::StatusOr<WebhookEvent> parseWebhookEvent(std::string_view body) {
  const auto parsed = JsonText::parse(body);
  if (!parsed.ok()) {
    return parsed.status();
  }
  JsonErrors errors;
  JsonObject root = (*parsed)->root(errors);
  WebhookEvent event;
  event.identity = readEventIdentity(root);
  event.attempt = root.optionalAttempt("attempt");
  event.reason = root.has("reason") ? readReason(root) : "webhook";
  event.action = readResolution(root);
  if (!event.identity.has_value() && !event.attempt.has_value()) {
    root.fail("attempt", "set the attempt, or tenant, operation and key");
  }
  if (!event.attempt.has_value() && std::holds_alternative<store::NotRun>(event.action)) {
    root.fail("attempt", "is required with the outcome not_run");
  }
  root.refuseOthers();
  if (!errors.empty()) {
    return errors.status();
  }
  return event;
}

std::string encodeChangeRequest(const store::OperatorChange& change) {
  JsonWriter json;
  json.beginObject();
  json.text("attempt", std::to_string(change.seen.attempt));
  json.text("reason", change.reason);
  json.flag("dry_run", change.dry_run);
  writeAction(change.action, json);
  json.endObject();
  return json.json();
}

absl::StatusOr<PurgeRequest> parsePurge(std::string_view body) {
  const auto parsed = JsonText::parse(body);
  if (!parsed.ok()) {
    return parsed.status();
  }
  JsonErrors errors;
  JsonObject root = (*parsed)->root(errors);
  PurgeRequest request;
  request.purge.tenant = readTenant(root);
  request.purge.reason = readReason(root);
  request.purge.dry_run = root.flag("dry_run");
  const int64_t limit = root.optionalNumber("limit").value_or(DefaultPurgeLimit);
  if (limit < 1 || limit > MaxPurgeLimit) {
    root.fail("limit", "must be 1 to 10000");
  }
  request.limit = static_cast<uint32_t>(limit);
  root.refuseOthers();
  if (!errors.empty()) {
    return errors.status();
  }
  return request;
}

std::string encodePurgeRequest(const PurgeRequest& request) {
  JsonWriter json;
  json.beginObject();
  if (fingerprint::isUtf8(request.purge.tenant)) {
    json.text("tenant", request.purge.tenant);
  } else {
    json.text("tenant_base64", toBase64(request.purge.tenant));
  }
  json.text("reason", request.purge.reason);
  json.flag("dry_run", request.purge.dry_run);
  json.number("limit", request.limit);
  json.endObject();
  return json.json();
}

}  // namespace idempotency::operator_api
