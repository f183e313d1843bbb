#include "source/protocol/decide.h"

#include "source/protocol/overloaded.h"

namespace idempotency::protocol {
namespace {

RequestDecision onKeyProblem(const Policy& policy, const key::KeyRefusal& refusal) {
  if (refusal.problem != key::KeyProblem::Missing) {
    return Answer{.problem = Problem::KeyInvalid, .key_problem = refusal};
  }
  if (policy.enforcement == Enforcement::Optional) {
    return Pass{PassReason::NoKey};
  }
  return Answer{.problem = Problem::KeyMissing};
}

Answer storeUnavailable(const Policy& policy, const StoreFailed& failure) {
  return {.problem = Problem::StoreUnavailable,
          .retry_after = failure.retry_after.value_or(policy.in_flight.retry_after)};
}

Decision onStoreFailed(const Policy& policy, const StoreFailed& failure) {
  switch (policy.on_store_failure) {
    case StoreFailure::FailOpen:
      return Pass{PassReason::StoreFailOpen};
    case StoreFailure::FailClosed:
      break;
  }
  return storeUnavailable(policy, failure);
}

Answer onNoRoom(const Policy& policy) {
  return {.problem = Problem::Overloaded, .retry_after = policy.in_flight.retry_after};
}

Answer onQuota(const QuotaReached& quota) {
  return {.problem = Problem::QuotaExceeded, .retry_after = quota.retry_after};
}

Answer runsAsynchronously(const Policy& policy) {
  return {.problem = Problem::Asynchronous, .retry_after = policy.in_flight.retry_after};
}

Answer unreadable(const Policy& policy) {
  return {.problem = Problem::RecordUnreadable, .retry_after = policy.in_flight.retry_after};
}

// Another request with this key is running.
Decision onLiveClaim(const Policy& policy, const ClaimFacts& facts) {
  if (facts.async_wait.has_value()) {
    return facts.waited < *facts.async_wait ? Decision(Wait{*facts.async_wait - facts.waited})
                                            : Decision(runsAsynchronously(policy));
  }
  const Answer reject{.problem = Problem::InProgress, .retry_after = policy.in_flight.retry_after};
  switch (policy.in_flight.action) {
    case InFlightAction::Reject:
      return reject;
    case InFlightAction::Accepted:
      return Answer{.problem = Problem::Accepted, .retry_after = policy.in_flight.retry_after};
    case InFlightAction::Wait:
      if (facts.waited < policy.in_flight.wait) {
        return Wait{policy.in_flight.wait - facts.waited};
      }
      return reject;
  }
  return reject;
}

// Whether an earlier request ran is unknown: this one never runs, no matter how much time has
// passed.
Answer onUnknown(const Policy& policy, const RecordFacts& record) {
  if (policy.unknown_retention.has_value() && record.claim_age >= *policy.unknown_retention) {
    return Answer{.problem = Problem::UnknownExpired};
  }
  return Answer{.problem = Problem::OutcomeUnknown, .retry_after = record.reconcile_after};
}

// The lease of the request that held the claim has expired; whether it ran is unknown. While a
// policy is being changed, the claim and this request may be under different ones: both must allow
// a re-run.
Decision onDeadLease(const Policy& policy, const RecordFacts& record) {
  if (record.on_lease_expired == LeaseExpired::Retry &&
      policy.on_lease_expired == LeaseExpired::Retry) {
    return Reclaim{record.state, record.attempt};
  }
  return onUnknown(policy, record);
}

Decision onPastLife(const Policy& policy, const RecordFacts& record) {
  switch (policy.on_expired) {
    case ExpiredKey::Run:
      return Reclaim{record.state, record.attempt};
    case ExpiredKey::Gone:
      break;
  }
  return Answer{.problem = Problem::KeyExpired};
}

Decision onInProgress(const Policy& policy, const ClaimFacts& facts, const RecordFacts& record) {
  if (!record.lease_alive) {
    return onDeadLease(policy, record);
  }
  return onLiveClaim(policy, facts);
}

StatusDecision onCompleted(const RecordFacts& record) {
  if (record.has_response) {
    return Replay{};
  }
  return Answer{.problem = Problem::ResponseUnavailable, .original_status = record.status};
}

// The request is the same one that the record was created for.
Decision onSameRequest(const Policy& policy, const ClaimFacts& facts, const RecordFacts& record) {
  if (isOver(record.state, record.past_life)) {
    return onPastLife(policy, record);
  }
  switch (record.state) {
    case RecordState::InProgress:
      return onInProgress(policy, facts, record);
    case RecordState::Completed:
      return std::visit([](const auto& decision) { return Decision(decision); },
                        onCompleted(record));
    case RecordState::FailedRetryable:
      return Reclaim{record.state, record.attempt};
    case RecordState::Unknown:
      return onUnknown(policy, record);
    case RecordState::Expired:
      break;
  }
  return unreadable(policy);
}

Decision onFound(const Policy& policy, const ClaimFacts& facts, const RecordFacts& record) {
  // An expired key that runs as new may be used with any request.
  if (isOver(record.state, record.past_life) && policy.on_expired == ExpiredKey::Run) {
    return onPastLife(policy, record);
  }
  switch (record.match) {
    case FingerprintMatch::Same:
      return onSameRequest(policy, facts, record);
    case FingerprintMatch::Different:
      return Answer{.problem = Problem::KeyReused};
    case FingerprintMatch::Unverifiable:
      break;
  }
  // A newer build probably wrote the record: another Envoy may be able to read it.
  return unreadable(policy);
}

// --- The status of a run

StatusDecision statusOf(const Policy& policy, const RecordFacts& record) {
  if (isOver(record.state, record.past_life)) {
    return Answer{.problem = Problem::KeyExpired};
  }
  switch (record.state) {
    case RecordState::InProgress:
      if (record.lease_alive) {
        return runsAsynchronously(policy);
      }
      // The route's policy decides whether the request runs again, when it comes again.
      return record.on_lease_expired == LeaseExpired::Retry
                 ? Answer{.problem = Problem::RunNotCompleted}
                 : onUnknown(policy, record);
    case RecordState::Completed:
      return onCompleted(record);
    case RecordState::FailedRetryable:
      return Answer{.problem = Problem::RunNotCompleted};
    case RecordState::Unknown:
      return onUnknown(policy, record);
    case RecordState::Expired:
      break;
  }
  return unreadable(policy);
}

}  // namespace

RequestDecision decideRequest(const Policy& policy, const RequestFacts& facts) {
  if (!policy.covers(facts.method)) {
    return Pass{PassReason::Uncovered};
  }
  if (facts.key_problem.has_value()) {
    return onKeyProblem(policy, *facts.key_problem);
  }
  if (!facts.tenant_known) {
    return Answer{.problem = Problem::TenantMissing};
  }
  if (policy.max_request_age.has_value() && facts.age != RequestAge::Fresh) {
    return Answer{.problem = Problem::RequestTooOld};
  }
  if (facts.upgrade) {
    return Answer{.problem = Problem::UpgradeRefused};
  }
  if (facts.body_too_large) {
    return Answer{.problem = Problem::RequestTooLarge};
  }
  if (facts.awaits_continue) {
    return Answer{.problem = Problem::ExpectationFailed};
  }
  return Claim{};
}

Decision decide(const Policy& policy, const ClaimFacts& facts, const StoreResult& result) {
  return std::visit(
      Overloaded{
          [&](const StoreFailed& failure) { return onStoreFailed(policy, failure); },
          [&](const NoRoom&) -> Decision { return onNoRoom(policy); },
          [&](const QuotaReached& quota) -> Decision { return onQuota(quota); },
          [&](const ClaimGranted&) -> Decision { return Run{}; },
          [&](const RecordFound& found) { return onFound(policy, facts, found.record); },
      },
      result);
}

StatusDecision decideStatus(const Policy& policy, const StatusResult& result) {
  return std::visit(Overloaded{
                        [&](const StoreFailed& failure) -> StatusDecision {
                          return storeUnavailable(policy, failure);
                        },
                        [&](const NoRoom&) -> StatusDecision { return onNoRoom(policy); },
                        [&](const QuotaReached& quota) -> StatusDecision { return onQuota(quota); },
                        [&](const RecordAbsent&) -> StatusDecision {
                          return Answer{.problem = Problem::RunNotFound};
                        },
                        [&](const RecordFound& found) { return statusOf(policy, found.record); },
                    },
                    result);
}

}  // namespace idempotency::protocol
