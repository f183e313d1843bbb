#include "source/request/store_results.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "source/message/stored_response.h"

namespace idempotency::request {
namespace {

// A question that is overdue for longer is not going to be asked: no reconciler covers the
// operation, or none is running. A change of the leader or a backlog takes less.
constexpr std::chrono::minutes LongestDelay{5};

}  // namespace

protocol::RecordFound factsOf(const store::Record& record,
                              const runtime::CompletedRecord* completed, const Matcher& match) {
  protocol::RecordFacts facts;
  facts.state = record.state;
  facts.match = match(record.fingerprint);
  facts.attempt = record.attempt;
  facts.lease_alive = record.lease_alive;
  facts.on_lease_expired = record.on_lease_expired;
  facts.past_life = record.past_life;
  facts.claim_age = record.claim_age;
  facts.has_response = completed != nullptr;
  facts.status = record.status;
  if (record.reconcile_after.has_value() && *record.reconcile_after > -LongestDelay) {
    // Rounded up, and never 0: that would ask for an immediate retry.
    facts.reconcile_after = std::max(
        std::chrono::ceil<std::chrono::seconds>(*record.reconcile_after), std::chrono::seconds(1));
  }
  return protocol::RecordFound{facts};
}

protocol::RecordFound factsOf(const runtime::CompletedRecord& completed, const Matcher& match) {
  protocol::RecordFacts facts;
  facts.state = protocol::RecordState::Completed;
  facts.match = match(completed.fingerprint);
  facts.attempt = completed.attempt;
  facts.has_response = true;
  facts.status = completed.response.status;
  return protocol::RecordFound{facts};
}

absl::StatusOr<std::shared_ptr<const runtime::CompletedRecord>> completedRecord(
    const store::Record& record, store::Deadline asked, std::string key_hash) {
  if (record.state != protocol::RecordState::Completed || !record.response.has_value()) {
    return nullptr;
  }
  absl::StatusOr<protocol::StoredResponse> response = message::parseResponse(*record.response);
  if (!response.ok()) {
    return response.status();
  }
  auto completed = std::make_shared<runtime::CompletedRecord>();
  completed->fingerprint = record.fingerprint;
  completed->attempt = record.attempt;
  completed->expires_at = record.expires_at;
  completed->live_until = asked + record.life_left;
  completed->response = *std::move(response);
  completed->key_hash = std::move(key_hash);
  return completed;
}

}  // namespace idempotency::request
