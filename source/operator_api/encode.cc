#include "source/operator_api/encode.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "source/fingerprint/hex.h"
#include "source/message/stored_response.h"
#include "source/operator_api/cursor.h"
#include "source/operator_api/record_id.h"
#include "source/operator_api/response_object.h"
#include "source/operator_api/text.h"
#include "source/protocol/key_hash.h"
#include "source/store/audit.h"
#include "source/store/operator_rules.h"

namespace idempotency::operator_api {
namespace {

using protocol::RecordState;

std::string hex(std::string_view bytes) {
  return fingerprint::toHex(
      std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}

void writeIdentity(const protocol::Identity& identity, JsonWriter& json) {
  json.text("id", recordId(identity));
  json.text("tenant", identity.tenant);
  json.text("operation", identity.operation);
  json.text("key", identity.key);
  json.text("key_hash", protocol::keyHash(identity));
}

void writeAttempt(std::string_view name, protocol::Attempt attempt, JsonWriter& json) {
  json.text(name, std::to_string(attempt));
}

void writeOptional(std::string_view name, const std::optional<std::chrono::milliseconds>& value,
                   JsonWriter& json) {
  if (value.has_value()) {
    json.seconds(name, *value);
  } else {
    json.null(name);
  }
}

std::optional<std::chrono::milliseconds> notNegative(
    std::optional<std::chrono::milliseconds> time) {
  return time.has_value() ? std::optional(std::max(*time, std::chrono::milliseconds(0))) : time;
}

void writeOptional(std::string_view name, const std::optional<store::StoreTime>& value,
                   JsonWriter& json) {
  if (value.has_value()) {
    json.text(name, formatTime(*value));
  } else {
    json.null(name);
  }
}

// Empty is null.
void writeName(std::string_view name, const std::string& value, JsonWriter& json) {
  if (value.empty()) {
    json.null(name);
  } else {
    json.text(name, value);
  }
}

void writeFingerprint(const std::string& fingerprint, JsonWriter& json) {
  if (fingerprint.empty()) {
    json.null("fingerprint");
    return;
  }
  json.beginObject("fingerprint");
  json.number("version", static_cast<uint8_t>(fingerprint.front()));
  json.text("digest", hex(std::string_view(fingerprint).substr(1)));
  json.endObject();
}

// What only a record in this state has; null in others.
void writeStateFacts(const store::Record& record, JsonWriter& json) {
  const bool in_progress = record.state == RecordState::InProgress;
  const bool completed = record.state == RecordState::Completed;
  json.flag("lease_alive", in_progress && record.lease_alive);
  writeOptional("lease_left_seconds", in_progress ? std::optional(record.lease_left) : std::nullopt,
                json);
  writeOptional("next_try_seconds", notNegative(record.reconcile_after), json);
  json.flag("dead_letter", record.dead_letter);
  writeOptional("completed_at", record.completed_at, json);
  if (completed) {
    json.number("status", record.status);
    json.text("tombstone", tombstoneName(record.tombstone));
  } else {
    json.null("status");
    json.null("tombstone");
  }
}

// As the server that withholds it has written it.
void writeWithheld(const store::ListedRecord& listed, JsonWriter& json) {
  const auto& body_bytes = listed.withheld_response->body_bytes;
  json.beginObject("response");
  json.number("status", listed.record.status);
  json.flag("readable", body_bytes.has_value());
  json.flag("shown", false);
  if (body_bytes.has_value()) {
    json.count("body_bytes", *body_bytes);
  }
  json.endObject();
}

void writeResponse(const store::ListedRecord& listed, ShowResponse show, JsonWriter& json) {
  const store::Record& record = listed.record;
  if (listed.withheld_response.has_value()) {
    writeWithheld(listed, json);
    return;
  }
  if (!record.response.has_value()) {
    json.null("response");
    return;
  }
  const auto response = message::parseResponse(*record.response);
  json.beginObject("response");
  json.number("status", record.status);
  json.flag("readable", response.ok());
  json.flag("shown", response.ok() && show == ShowResponse::Yes);
  if (response.ok()) {
    json.count("body_bytes", response->body.size());
  }
  if (response.ok() && show == ShowResponse::Yes) {
    writeResponseParts(*response, json);
  }
  json.endObject();
}

void writeRecordMembers(const store::ListedRecord& listed, JsonWriter& json) {
  const store::Record& record = listed.record;
  writeIdentity(listed.identity, json);
  json.text("state", stateName(record.state));
  writeAttempt("attempt", record.attempt, json);
  writeName("last_error", record.last_error, json);
  json.seconds("age_seconds", record.claim_age);
  json.text("created_at", formatTime(record.created_at));
  json.text("expires_at", formatTime(record.expires_at));
  json.flag("expired", record.past_life);
  json.seconds("life_left_seconds", record.life_left);
  json.text("recovery_point", record.recovery_point);
  json.text("on_lease_expired", leaseExpiredName(record.on_lease_expired));
  writeStateFacts(record, json);
  writeFingerprint(record.fingerprint, json);
}

void writeEntry(const store::AuditEntry& entry, JsonWriter& json) {
  json.beginObject();
  json.text("id", std::to_string(entry.id));
  json.text("at", formatTime(entry.at));
  json.text("actor", entry.actor);
  json.text("action", entry.action);
  if (entry.identity.has_value()) {
    json.beginObject("record");
    writeIdentity(*entry.identity, json);
    json.endObject();
  } else {
    json.null("record");
  }
  if (entry.attempt.has_value()) {
    writeAttempt("attempt", *entry.attempt, json);
  } else {
    json.null("attempt");
  }
  json.count("records", entry.records);
  json.text("detail", entry.detail);
  json.endObject();
}

void writeEntries(std::string_view name, const store::AuditPage& page, JsonWriter& json) {
  json.beginArray(name);
  for (const store::AuditEntry& entry : page.entries) {
    writeEntry(entry, json);
  }
  json.endArray();
}

// Null: there is no further page.
void writeCursor(const std::optional<std::string>& cursor, JsonWriter& json) {
  if (cursor.has_value()) {
    json.text("next_cursor", *cursor);
  } else {
    json.null("next_cursor");
  }
}

void writeUnsettled(const std::vector<store::UnsettledUse>& rows, JsonWriter& json) {
  json.beginArray("unsettled");
  for (const store::UnsettledUse& row : rows) {
    json.beginObject();
    json.text("operation", row.operation);
    json.count("records", row.records);
    json.count("dead_letters", row.dead_letters);
    json.seconds("oldest_seconds", row.oldest);
    json.endObject();
  }
  json.endArray();
}

void writeTenants(const store::Summary& summary, JsonWriter& json) {
  json.beginArray("tenants");
  for (const store::TenantUse& row : summary.tenants) {
    json.beginObject();
    json.text("tenant", row.tenant);
    json.count("records", row.records);
    json.seconds("oldest_seconds", row.oldest);
    json.endObject();
  }
  json.endArray();
  json.flag("tenants_complete", summary.tenants_complete);
}

void writeStates(const store::Summary& summary, JsonWriter& json) {
  json.beginObject("states");
  for (const auto& [state, records] : summary.states) {
    json.count(stateName(state), records);
  }
  json.endObject();
  json.flag("states_complete", summary.states_complete);
}

// Over all operations.
void writeTotals(const std::vector<store::UnsettledUse>& rows, JsonWriter& json) {
  uint64_t records = 0;
  uint64_t dead_letters = 0;
  std::optional<std::chrono::milliseconds> oldest;
  for (const store::UnsettledUse& row : rows) {
    records += row.records;
    dead_letters += row.dead_letters;
    oldest = std::max(oldest.value_or(row.oldest), row.oldest);
  }
  json.count("unknown_records", records);
  json.count("dead_letters", dead_letters);
  writeOptional("oldest_unknown_seconds", oldest, json);
}

}  // namespace

void writeRecord(std::string_view name, const store::ListedRecord& record, JsonWriter& json) {
  json.beginObject(name);
  writeRecordMembers(record, json);
  json.endObject();
}

std::string encodeRecords(const store::RecordPage& page) {
  JsonWriter json;
  json.beginObject();
  json.beginArray("records");
  for (const store::ListedRecord& record : page.records) {
    writeRecord({}, record, json);
  }
  json.endArray();
  const bool more = page.more && !page.records.empty();
  writeCursor(more ? std::optional(recordCursor(page.records.back().identity)) : std::nullopt,
              json);
  json.endObject();
  return json.json();
}

std::string encodeRecord(const store::ListedRecord& record, const store::AuditPage& timeline,
                         ShowResponse show) {
  JsonWriter json;
  json.beginObject();
  writeRecordMembers(record, json);
  writeResponse(record, show, json);
  writeEntries("timeline", timeline, json);
  json.flag("timeline_complete", !timeline.more);
  json.endObject();
  return json.json();
}

std::string encodeAudit(const store::AuditPage& page) {
  JsonWriter json;
  json.beginObject();
  writeEntries("entries", page, json);
  const bool more = page.more && !page.entries.empty();
  writeCursor(more ? std::optional(auditCursor(page.entries.back().id)) : std::nullopt, json);
  json.endObject();
  return json.json();
}

std::string encodeSummary(const store::Summary& summary, const ServerFacts& facts) {
  JsonWriter json;
  json.beginObject();
  json.text("now", formatTime(summary.now));
  writeTotals(summary.unsettled, json);
  writeUnsettled(summary.unsettled, json);
  writeTenants(summary, json);
  writeStates(summary, json);
  writeName("leader", summary.leader, json);
  json.number("schema_version", summary.schema_version);
  json.flag("read_only", facts.read_only);
  json.endObject();
  return json.json();
}

std::string encodeChange(const store::OperatorChange& change, const store::ChangeResult& result) {
  JsonWriter json;
  json.beginObject();
  json.text("action", store::name(store::auditAction(change.action)));
  json.flag("dry_run", change.dry_run);
  if (result.found.has_value()) {
    writeRecord("before", {change.seen.identity, *result.found}, json);
  } else {
    json.null("before");
  }
  json.endObject();
  return json.json();
}

std::string encodePurge(const store::Purge& purge, const store::PurgeResult& result) {
  JsonWriter json;
  json.beginObject();
  json.flag("dry_run", purge.dry_run);
  json.count("records", result.records);
  json.count("unsettled", result.unsettled);
  json.count("running", result.running);
  json.count("audit_entries", result.audit_entries);
  json.flag("more", result.more);
  json.endObject();
  return json.json();
}

}  // namespace idempotency::operator_api
