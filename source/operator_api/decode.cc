#include "source/operator_api/decode.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "source/message/stored_response.h"
#include "source/operator_api/base64.h"
#include "source/operator_api/cursor.h"
#include "source/operator_api/json_object.h"
#include "source/operator_api/problem.h"
#include "source/operator_api/record_id.h"
#include "source/operator_api/response_object.h"
#include "source/operator_api/text.h"

namespace idempotency::operator_api {
namespace {

// Reads one object. Its mistakes are the server's, and so is the wording of the error.
template <class Result, class Read>
absl::StatusOr<Result> decodeWith(std::string_view json, Read read) {
  const auto parsed = JsonText::parse(json);
  if (!parsed.ok()) {
    return parsed.status();
  }
  JsonErrors errors;
  JsonObject root = (*parsed)->root(errors);
  Result result = read(root);
  if (!errors.empty()) {
    return errors.status();
  }
  return result;
}

store::StoreTime readTime(JsonObject& object, std::string_view name) {
  const auto time = parseTime(object.text(name));
  if (!time.has_value()) {
    object.fail(name, "must be a time such as 2026-02-03T04:05:06.789Z");
  }
  return time.value_or(store::StoreTime());
}

std::optional<store::StoreTime> readOptionalTime(JsonObject& object, std::string_view name) {
  return object.has(name) ? std::optional(readTime(object, name)) : std::nullopt;
}

uint64_t readCount(JsonObject& object, std::string_view name) {
  const int64_t number = object.number(name);
  if (number < 0) {
    object.fail(name, "must be at least 0");
  }
  return static_cast<uint64_t>(number);
}

protocol::Identity readIdentity(JsonObject& object) {
  auto identity = parseRecordId(object.text("id"));
  if (!identity.has_value()) {
    object.fail("id", "must be the id of a record");
  }
  return identity.value_or(protocol::Identity());
}

std::optional<std::string> fromHex(std::string_view text) {
  constexpr std::string_view Digits = "0123456789abcdef";
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    const size_t high = Digits.find(text[i]);
    const size_t low = i + 1 < text.size() ? Digits.find(text[i + 1]) : std::string_view::npos;
    if (high == std::string_view::npos || low == std::string_view::npos) {
      return std::nullopt;
    }
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

std::string readFingerprint(JsonObject& object) {
  auto fingerprint = object.object("fingerprint");
  if (!fingerprint.has_value()) {
    return {};
  }
  const auto digest = fromHex(fingerprint->text("digest"));
  if (!digest.has_value()) {
    fingerprint->fail("digest", "must be hexadecimal");
    return {};
  }
  return static_cast<char>(fingerprint->number("version")) + *digest;
}

template <class Value, class Parse>
Value readName(JsonObject& object, std::string_view name, Parse parse, Value otherwise) {
  const auto value = parse(object.text(name));
  if (!value.has_value()) {
    object.fail(name, "has a value that this version does not know");
  }
  return value.value_or(otherwise);
}

int32_t readStatus(JsonObject& object) {
  constexpr int64_t Most = 999;
  const int64_t status = object.number("status");
  if (status < 0 || status > Most) {
    object.fail("status", "must be a status");
  }
  return static_cast<int32_t>(status);
}

store::ListedRecord readRecord(JsonObject& object) {
  store::ListedRecord listed;
  listed.identity = readIdentity(object);
  store::Record& record = listed.record;
  record.state = readName(object, "state", parseState, protocol::RecordState::Unknown);
  record.attempt = object.attempt("attempt");
  record.last_error = object.optionalText("last_error").value_or("");
  record.claim_age = object.seconds("age_seconds");
  record.created_at = readTime(object, "created_at");
  record.expires_at = readTime(object, "expires_at");
  record.past_life = object.flag("expired");
  record.life_left = object.seconds("life_left_seconds");
  record.recovery_point = object.text("recovery_point");
  record.on_lease_expired = object.text("on_lease_expired") == "retry"
                                ? protocol::LeaseExpired::Retry
                                : protocol::LeaseExpired::Unknown;
  record.lease_alive = object.flag("lease_alive");
  record.lease_left =
      object.optionalSeconds("lease_left_seconds").value_or(std::chrono::milliseconds(0));
  record.reconcile_after = object.optionalSeconds("next_try_seconds");
  record.dead_letter = object.flag("dead_letter");
  record.completed_at = readOptionalTime(object, "completed_at");
  record.status = record.state == protocol::RecordState::Completed ? readStatus(object) : 0;
  if (object.has("tombstone")) {
    record.tombstone = readName(object, "tombstone", parseTombstone, protocol::Tombstone::None);
  }
  record.fingerprint = readFingerprint(object);
  return listed;
}

store::AuditEntry readEntry(JsonObject& object) {
  store::AuditEntry entry;
  const auto id = parseNumber(object.text("id"));
  if (!id.has_value()) {
    object.fail("id", "must be a number in digits");
  }
  entry.id = id.value_or(0);
  entry.at = readTime(object, "at");
  entry.actor = object.text("actor");
  entry.action = object.text("action");
  if (auto record = object.object("record")) {
    entry.identity = readIdentity(*record);
  }
  entry.attempt = object.optionalAttempt("attempt");
  entry.records = readCount(object, "records");
  entry.detail = object.text("detail");
  return entry;
}

std::vector<store::AuditEntry> readEntries(JsonObject& object, std::string_view name) {
  std::vector<store::AuditEntry> entries;
  for (JsonObject& entry : object.objects(name)) {
    entries.push_back(readEntry(entry));
  }
  return entries;
}

void readStoredResponse(JsonObject& object, store::ListedRecord& listed) {
  const int32_t status = readStatus(object);
  if (listed.record.state == protocol::RecordState::Completed && status != listed.record.status) {
    object.fail("status", "is not that of the record");
  }
  listed.record.status = status;
  const bool is_shown = object.flag("shown");
  std::string bytes = is_shown ? message::serializeResponse(readResponse(object)) : "";
  // One that this version cannot read counts as the server's own unreadable ones.
  if (is_shown && message::parseResponse(bytes).ok()) {
    listed.record.response_schema = protocol::ResponseSchema;
    listed.record.response = std::move(bytes);
    return;
  }
  listed.withheld_response.emplace();
  if (!is_shown && object.has("body_bytes")) {
    listed.withheld_response->body_bytes = readCount(object, "body_bytes");
  }
}

void readStates(JsonObject& object, store::Summary& summary) {
  auto states = object.object("states");
  if (!states.has_value()) {
    return;
  }
  for (const std::string& name : states->names()) {
    if (const auto state = parseState(name)) {
      summary.states[*state] = readCount(*states, name);
    }
  }
}

ServerSummary readSummary(JsonObject& root) {
  ServerSummary result;
  store::Summary& summary = result.summary;
  summary.now = readTime(root, "now");
  for (JsonObject& row : root.objects("unsettled")) {
    summary.unsettled.push_back({row.text("operation"), readCount(row, "records"),
                                 readCount(row, "dead_letters"), row.seconds("oldest_seconds")});
  }
  for (JsonObject& row : root.objects("tenants")) {
    summary.tenants.push_back(
        {row.text("tenant"), readCount(row, "records"), row.seconds("oldest_seconds")});
  }
  summary.tenants_complete = root.flag("tenants_complete");
  readStates(root, summary);
  summary.states_complete = root.flag("states_complete");
  summary.leader = root.optionalText("leader").value_or("");
  summary.schema_version = static_cast<int>(root.number("schema_version"));
  result.facts.read_only = root.flag("read_only");
  return result;
}

std::optional<store::Record> readFound(JsonObject& root, std::string_view name) {
  auto record = root.object(name);
  return record.has_value() ? std::optional(readRecord(*record).record) : std::nullopt;
}

// The outcome that a problem's code stands for.
std::optional<store::ChangeOutcome> outcomeOf(std::string_view code) {
  if (code == problemText(ApiProblem::RecordNotFound).code) {
    return store::ChangeOutcome::Absent;
  }
  if (code == problemText(ApiProblem::Stale).code) {
    return store::ChangeOutcome::Stale;
  }
  if (code == problemText(ApiProblem::Refused).code) {
    return store::ChangeOutcome::Refused;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<store::RecordPage> decodeRecords(std::string_view json) {
  return decodeWith<store::RecordPage>(json, [](JsonObject& root) {
    store::RecordPage page;
    for (JsonObject& record : root.objects("records")) {
      page.records.push_back(readRecord(record));
    }
    page.more = root.has("next_cursor");
    return page;
  });
}

absl::StatusOr<RecordDetail> decodeRecord(std::string_view json) {
  return decodeWith<RecordDetail>(json, [](JsonObject& root) {
    RecordDetail detail;
    detail.record = readRecord(root);
    if (auto response = root.object("response")) {
      readStoredResponse(*response, detail.record);
    }
    detail.timeline.entries = readEntries(root, "timeline");
    detail.timeline.more = !root.flag("timeline_complete");
    return detail;
  });
}

absl::StatusOr<store::AuditPage> decodeAudit(std::string_view json) {
  return decodeWith<store::AuditPage>(json, [](JsonObject& root) {
    store::AuditPage page;
    page.entries = readEntries(root, "entries");
    page.more = root.has("next_cursor");
    return page;
  });
}

absl::StatusOr<ServerSummary> decodeSummary(std::string_view json) {
  return decodeWith<ServerSummary>(json, readSummary);
}

absl::StatusOr<store::ChangeResult> decodeChange(int status, std::string_view json) {
  return decodeWith<store::ChangeResult>(json, [status](JsonObject& root) {
    constexpr int Ok = 200;
    if (status == Ok) {
      return store::ChangeResult{store::ChangeOutcome::Done, readFound(root, "before")};
    }
    const auto outcome = outcomeOf(root.text("code"));
    if (!outcome.has_value()) {
      root.fail("code", "is not the outcome of a change");
    }
    return store::ChangeResult{outcome.value_or(store::ChangeOutcome::Refused),
                               readFound(root, "record")};
  });
}

absl::StatusOr<store::PurgeResult> decodePurge(std::string_view json) {
  return decodeWith<store::PurgeResult>(json, [](JsonObject& root) {
    store::PurgeResult result;
    result.records = readCount(root, "records");
    result.unsettled = readCount(root, "unsettled");
    result.running = readCount(root, "running");
    result.audit_entries = readCount(root, "audit_entries");
    result.more = root.flag("more");
    return result;
  });
}

absl::StatusOr<ServerProblem> decodeProblem(std::string_view json) {
  return decodeWith<ServerProblem>(json, [](JsonObject& root) {
    ServerProblem problem;
    problem.code = root.optionalText("code").value_or("");
    problem.title = root.optionalText("title").value_or("");
    problem.detail = root.optionalText("detail").value_or("");
    return problem;
  });
}

}  // namespace idempotency::operator_api
