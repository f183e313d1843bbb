#include "source/protocol/store_action.h"

namespace idempotency {
namespace {

constexpr int MinFinalStatus = 200;

Tombstone tombstoneFor(const Policy& policy, Outcome outcome, const ResponseFacts& response) {
  if (!policy.store_response) {
    return Tombstone::Secret;
  }
  if (outcome == Outcome::CutByEnvoy || response.body_bytes > policy.max_response_bytes) {
    return Tombstone::TooLarge;
  }
  const bool final_status = response.status >= MinFinalStatus && response.status <= MaxStatus;
  return response.storable && final_status ? Tombstone::None : Tombstone::Unstorable;
}

StoreAction onResponse(const Policy& policy, Outcome outcome, const ResponseFacts& response) {
  if (policy.retryable_statuses.contains(response.judged_status)) {
    return {StoreActionKind::Fail};
  }
  if (policy.released_statuses.contains(response.judged_status)) {
    // Envoy's own retries: this answer tells nothing of the attempts before it.
    return {response.attempts <= 1 ? StoreActionKind::Release : StoreActionKind::MarkUnknown};
  }
  return {StoreActionKind::Complete, tombstoneFor(policy, outcome, response)};
}

}  // namespace

StoreAction storeAction(const Policy& policy, Outcome outcome, const ResponseFacts& response) {
  switch (outcome) {
    case Outcome::Unknown:
      return {StoreActionKind::MarkUnknown};
    case Outcome::NeverSent:
      return {StoreActionKind::Release};
    case Outcome::Answered:
    case Outcome::CutByEnvoy:
      return onResponse(policy, outcome, response);
    case Outcome::Redirected:
      return {StoreActionKind::Leave};
  }
  return {StoreActionKind::MarkUnknown};
}

}  // namespace idempotency
