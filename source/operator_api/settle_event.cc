#include "source/operator_api/settle_event.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "source/message/stored_response.h"
#include "source/operator_api/json_writer.h"
#include "source/operator_api/record_id.h"
#include "source/protocol/ending.h"
#include "source/store/audit.h"
#include "source/store/operator_rules.h"

namespace idempotency::operator_api {
namespace {

constexpr uint32_t AuditEntries = 100;

// The same bytes for the same event, whenever it comes.
ApiAnswer settledAnswer(const WebhookEvent& event, const protocol::Identity& identity) {
  const bool completed = std::holds_alternative<protocol::Completed>(event.action);
  JsonWriter json;
  json.beginObject();
  json.text("record", recordId(identity));
  json.text("outcome", completed ? "completed" : "not_run");
  json.endObject();
  return jsonAnswer(json.json());
}

absl::StatusOr<std::optional<protocol::Identity>> findByAttempt(protocol::Attempt attempt,
                                                                store::OperatorStore& store) {
  store::RecordFilter filter;
  filter.attempt = attempt;
  const auto page = store.list(filter, std::nullopt, 1);
  if (!page.ok()) {
    return page.status();
  }
  if (page->records.empty()) {
    return std::nullopt;
  }
  return page->records.front().identity;
}

// A settled attempt that is not in its record any more is still in the audit.
absl::StatusOr<std::optional<protocol::Identity>> findInAudit(const WebhookEvent& event,
                                                              store::OperatorStore& store) {
  store::AuditFilter filter;
  filter.attempt = event.attempt;
  if (event.identity.has_value()) {
    // There is an index for it.
    filter.tenant = event.identity->tenant;
    filter.operation = event.identity->operation;
    filter.key = event.identity->key;
  }
  const auto page = store.audit(filter, std::nullopt, AuditEntries);
  if (!page.ok()) {
    return page.status();
  }
  const std::string_view action = store::name(store::auditAction(event.action));
  for (const store::AuditEntry& entry : page->entries) {
    if (entry.action == action && entry.identity.has_value() &&
        (!event.identity.has_value() || *event.identity == *entry.identity)) {
      return entry.identity;
    }
  }
  return std::nullopt;
}

// Headers may differ: proxies add some.
bool isSameResponse(const protocol::Completed& wanted, const store::Record& found) {
  if (wanted.status != found.status) {
    return false;
  }
  if (wanted.tombstone != protocol::Tombstone::None || !found.response.has_value()) {
    return true;
  }
  const auto one = message::parseResponse(wanted.response);
  const auto other = message::parseResponse(*found.response);
  return one.ok() && other.ok() && one->body == other->body;
}

// Whether the record says already what the event says.
bool isSettledSo(const store::OperatorAction& action, const store::Record& record) {
  if (const auto* completed = std::get_if<protocol::Completed>(&action)) {
    return record.state == protocol::RecordState::Completed && isSameResponse(*completed, record);
  }
  return record.state == protocol::RecordState::FailedRetryable &&
         record.last_error == store::ResolvedNotRunError;
}

bool isRunning(const store::Record& record) {
  return record.state == protocol::RecordState::InProgress && record.lease_alive;
}

// The record could not be changed: either it is settled already, or the event contradicts it.
absl::StatusOr<ApiAnswer> answerUnchanged(const WebhookEvent& event,
                                          const protocol::Identity& identity,
                                          store::OperatorStore& store) {
  const auto record = store.find(identity);
  if (!record.ok()) {
    return record.status();
  }
  const bool same_attempt = record->has_value() && (!event.attempt.has_value() ||
                                                    *event.attempt == (*record)->record.attempt);
  if (same_attempt && isSettledSo(event.action, (*record)->record)) {
    return settledAnswer(event, identity);
  }
  if (same_attempt && isRunning((*record)->record)) {
    return problemAnswer(ApiProblem::Refused,
                         "The request is still running. Send the event again later.");
  }
  if (event.attempt.has_value()) {
    const auto settled = findInAudit(event, store);
    if (!settled.ok()) {
      return settled.status();
    }
    if (settled->has_value() && !same_attempt) {
      return settledAnswer(event, identity);
    }
  }
  return problemAnswer(record->has_value() ? ApiProblem::Contradiction
                                           : ApiProblem::RecordNotFound);
}

// Without an attempt, the event is about the attempt that the record has now.
absl::StatusOr<std::optional<protocol::Attempt>> attemptOf(const WebhookEvent& event,
                                                           const protocol::Identity& identity,
                                                           store::OperatorStore& store) {
  if (event.attempt.has_value()) {
    return event.attempt;
  }
  const auto record = store.find(identity);
  if (!record.ok()) {
    return record.status();
  }
  return record->has_value() ? std::optional((*record)->record.attempt) : std::nullopt;
}

absl::StatusOr<ApiAnswer> settle(const WebhookEvent& event, const protocol::Identity& identity,
                                 const std::string& actor, store::OperatorStore& store) {
  const auto attempt = attemptOf(event, identity, store);
  if (!attempt.ok()) {
    return attempt.status();
  }
  if (!attempt->has_value()) {
    return problemAnswer(ApiProblem::RecordNotFound);
  }
  store::OperatorChange change;
  change.seen = {identity, **attempt};
  change.action = event.action;
  change.actor = actor;
  change.reason = event.reason;
  const auto result = store.change(change);
  if (!result.ok()) {
    return result.status();
  }
  return result->outcome == store::ChangeOutcome::Done ? settledAnswer(event, identity)
                                                       : answerUnchanged(event, identity, store);
}

}  // namespace

absl::StatusOr<ApiAnswer> settleEvent(const WebhookEvent& event, const std::string& actor,
                                      store::OperatorStore& store) {
  if (event.identity.has_value()) {
    return settle(event, *event.identity, actor, store);
  }
  auto identity = findByAttempt(*event.attempt, store);
  if (identity.ok() && identity->has_value()) {
    return settle(event, **identity, actor, store);
  }
  if (identity.ok()) {
    identity = findInAudit(event, store);
  }
  if (!identity.ok()) {
    return identity.status();
  }
  return identity->has_value() ? settledAnswer(event, **identity)
                               : problemAnswer(ApiProblem::RecordNotFound);
}

}  // namespace idempotency::operator_api
