#include "source/filter/store_results.h"

#include <chrono>

namespace idempotency {

RecordFound factsOf(const Record& record, const CompletedRecord* completed, const Matcher& match) {
  RecordFacts facts;
  facts.state = record.state;
  facts.match = match(record.fingerprint);
  facts.attempt = record.attempt;
  facts.lease_alive = record.lease_alive;
  facts.past_life = record.past_life;
  facts.has_response = completed != nullptr;
  facts.status = record.status;
  if (record.reconcile_after.has_value()) {
    // Rounded up, and never 0: that would ask for a retry at once.
    facts.reconcile_after = std::max(
        std::chrono::ceil<std::chrono::seconds>(*record.reconcile_after), std::chrono::seconds(1));
  }
  return RecordFound{facts};
}

RecordFound factsOf(const CompletedRecord& completed, const Matcher& match) {
  RecordFacts facts;
  facts.state = RecordState::Completed;
  facts.match = match(completed.fingerprint);
  facts.attempt = completed.attempt;
  facts.has_response = true;
  facts.status = completed.response.status;
  return RecordFound{facts};
}

}  // namespace idempotency
