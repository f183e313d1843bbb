#include "source/cli/record_text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <span>
#include <utility>

#include "source/cli/printable.h"
#include "source/cli/text_table.h"
#include "source/cli/time_text.h"
#include "source/fingerprint/hex.h"
#include "source/message/stored_response.h"
#include "source/operator_api/text.h"
#include "source/protocol/key_hash.h"
#include "source/protocol/record.h"

namespace idempotency::cli {
namespace {

using protocol::RecordState;

std::string_view tombstoneText(protocol::Tombstone tombstone) {
  switch (tombstone) {
    case protocol::Tombstone::None:
      return "";
    case protocol::Tombstone::TooLarge:
      return "not stored: it was too large";
    case protocol::Tombstone::Secret:
      return "not stored: the policy stores no responses";
    case protocol::Tombstone::Unstorable:
      return "not stored: it cannot be replayed safely";
  }
  return "not stored";
}

// What an operator needs to know about the state, in a few words.
std::string stateNote(const store::Record& record) {
  switch (record.state) {
    case RecordState::InProgress:
      return record.lease_alive ? fmt::format("lease for {}", shownDuration(record.lease_left))
                                : "lease expired";
    case RecordState::Completed:
      return fmt::format("status {}", record.status);
    case RecordState::Unknown:
      if (record.dead_letter) {
        return "dead letter";
      }
      if (!record.reconcile_after.has_value()) {
        return "";
      }
      return fmt::format("next try in {}", shownDuration(std::max(*record.reconcile_after,
                                                                  std::chrono::milliseconds(0))));
    case RecordState::FailedRetryable:
    case RecordState::Expired:
      return "";
  }
  return "";
}

std::string shownOrDash(std::string_view text) {
  return text.empty() ? "-" : printable(text);
}

std::string lifeText(const store::Record& record) {
  if (!protocol::isOver(record.state, true)) {
    return "never: the outcome is not known";
  }
  return record.past_life ? fmt::format("{} (has passed)", shownTime(record.expires_at))
                          : fmt::format("{} (in {})", shownTime(record.expires_at),
                                        shownDuration(record.life_left));
}

std::string withheldText(const store::WithheldResponse& withheld) {
  return withheld.body_bytes.has_value()
             ? fmt::format("not shown; its body has {} bytes", *withheld.body_bytes)
             : "not shown, and it cannot be read";
}

using Lines = std::vector<std::pair<std::string_view, std::string>>;

std::string fieldLines(const Lines& lines) {
  std::string text;
  for (const auto& [name, value] : lines) {
    text += fmt::format("{:<15} {}\n", fmt::format("{}:", name), value);
  }
  return text;
}

std::string fieldList(const protocol::FieldList& fields) {
  std::string text;
  for (const auto& [name, value] : fields) {
    text += fmt::format("  {}: {}\n", printable(name), printable(value));
  }
  return text;
}

std::string attemptText(const store::AuditEntry& entry) {
  return entry.attempt.has_value() ? fmt::format("{}", *entry.attempt) : "-";
}

std::string countText(uint64_t count, bool complete) {
  return complete ? fmt::format("{}", count) : fmt::format("at least {}", count);
}

}  // namespace

std::string recordTable(const std::vector<store::ListedRecord>& records) {
  TextTable table({"STATE", "AGE", "TENANT", "OPERATION", "KEY", "ATTEMPT", "ERROR", "NOTE"});
  for (const auto& [identity, record, withheld] : records) {
    table.add({std::string(operator_api::stateName(record.state)), shownDuration(record.claim_age),
               shownOrDash(identity.tenant), shownOrDash(identity.operation),
               printable(identity.key), fmt::format("{}", record.attempt),
               shownOrDash(record.last_error), stateNote(record)});
  }
  return table.text();
}

std::string recordDetails(const store::ListedRecord& listed) {
  const auto& [identity, record, withheld] = listed;
  const std::string note = stateNote(record);
  const std::span fingerprint(reinterpret_cast<const uint8_t*>(record.fingerprint.data()),
                              record.fingerprint.size());
  Lines lines = {
      {"tenant", shownOrDash(identity.tenant)},
      {"operation", shownOrDash(identity.operation)},
      {"key", printable(identity.key)},
      {"key hash", protocol::keyHash(identity)},
      {"state", fmt::format("{}{}{}", operator_api::stateName(record.state),
                            note.empty() ? "" : ", ", note)},
      {"attempt", fmt::format("{}", record.attempt)},
      {"claimed", fmt::format("{} ago", shownDuration(record.claim_age))},
      {"created", shownTime(record.created_at)},
      {"expires", lifeText(record)},
      {"error", shownOrDash(record.last_error)},
      {"recovery point", shownOrDash(record.recovery_point)},
      {"fingerprint", fingerprint::toHex(fingerprint)},
  };
  if (record.completed_at.has_value()) {
    lines.emplace_back("completed", shownTime(*record.completed_at));
  }
  if (record.tombstone != protocol::Tombstone::None) {
    lines.emplace_back("response", tombstoneText(record.tombstone));
  } else if (record.response.has_value()) {
    lines.emplace_back("response", fmt::format("{} bytes", record.response->size()));
  } else if (withheld.has_value()) {
    lines.emplace_back("response", withheldText(*withheld));
  }
  return fieldLines(lines);
}

std::string responseText(const std::string& bytes) {
  const auto response = message::parseResponse(bytes);
  if (!response.ok()) {
    return fmt::format("{}\n", std::string(response.status().message()));
  }
  return fmt::format("status {}\n{}{}\n{}", response->status, fieldList(response->headers),
                     response->body.empty() ? "" : "\n" + printable(response->body),
                     fieldList(response->trailers));
}

std::string auditTable(const std::vector<store::AuditEntry>& entries) {
  TextTable table({"ID", "TIME", "ACTOR", "ACTION", "TENANT", "OPERATION", "KEY", "ATTEMPT",
                   "RECORDS", "DETAIL"});
  for (const store::AuditEntry& entry : entries) {
    const protocol::Identity identity = entry.identity.value_or(protocol::Identity());
    table.add({fmt::format("{}", entry.id), shownTime(entry.at), shownOrDash(entry.actor),
               shownOrDash(entry.action), shownOrDash(identity.tenant),
               shownOrDash(identity.operation), shownOrDash(identity.key), attemptText(entry),
               fmt::format("{}", entry.records), shownOrDash(entry.detail)});
  }
  return table.text();
}

std::string timelineTable(const std::vector<store::AuditEntry>& entries) {
  TextTable table({"TIME", "ACTOR", "ACTION", "ATTEMPT", "DETAIL"});
  for (const store::AuditEntry& entry : entries) {
    table.add({shownTime(entry.at), shownOrDash(entry.actor), shownOrDash(entry.action),
               attemptText(entry), shownOrDash(entry.detail)});
  }
  return table.text();
}

std::string statesText(const store::Summary& summary) {
  std::string text;
  for (const RecordState state :
       {RecordState::InProgress, RecordState::Completed, RecordState::FailedRetryable,
        RecordState::Unknown, RecordState::Expired}) {
    const auto found = summary.states.find(state);
    const uint64_t count = found == summary.states.end() ? 0 : found->second;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", operator_api::stateName(state),
                        countText(count, summary.states_complete));
  }
  return text;
}

std::string unsettledTable(const std::vector<store::UnsettledUse>& unsettled) {
  if (unsettled.empty()) {
    return "";
  }
  TextTable table({"OPERATION", "UNKNOWN", "DEAD LETTERS", "OLDEST"});
  for (const store::UnsettledUse& use : unsettled) {
    table.add({shownOrDash(use.operation), fmt::format("{}", use.records),
               fmt::format("{}", use.dead_letters), shownDuration(use.oldest)});
  }
  return table.text();
}

std::string tenantTable(const store::Summary& summary) {
  if (summary.tenants.empty()) {
    return "";
  }
  TextTable table({"TENANT", "UNKNOWN", "OLDEST"});
  for (const store::TenantUse& use : summary.tenants) {
    table.add({shownOrDash(use.tenant), countText(use.records, summary.tenants_complete),
               shownDuration(use.oldest)});
  }
  return table.text();
}

std::string summaryText(const store::Summary& summary) {
  std::string text =
      summary.unsettled.empty() ? "No outcome is unknown.\n" : unsettledTable(summary.unsettled);
  if (!summary.tenants.empty()) {
    text += '\n' + tenantTable(summary);
  }
  return text + '\n' +
         fieldLines({
             {"records", statesText(summary)},
             {"leader", summary.leader.empty() ? "none: no Envoy runs the background jobs"
                                               : printable(summary.leader)},
             {"schema version", fmt::format("{}", summary.schema_version)},
             {"store's time", shownTime(summary.now)},
         });
}

}  // namespace idempotency::cli
