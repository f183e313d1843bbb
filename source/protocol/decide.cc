#include "source/protocol/decide.h"

#include "source/protocol/overloaded.h"

namespace idempotency {
namespace {

RequestDecision onKeyProblem(const Policy& policy, KeyProblem problem) {
  if (problem != KeyProblem::Missing) {
    return Answer{.problem = Problem::KeyInvalid, .key_problem = problem};
  }
  if (policy.enforcement == Enforcement::Optional) {
    return Pass{PassReason::NoKey};
  }
  return Answer{.problem = Problem::KeyMissing};
}

Decision onStoreFailed(const Policy& policy, const StoreFailed& failure) {
  switch (policy.on_store_failure) {
    case StoreFailure::FailOpen:
      return Pass{PassReason::StoreFailOpen};
    case StoreFailure::FailClosed:
      break;
  }
  return Answer{.problem = Problem::StoreUnavailable,
                .retry_after = failure.retry_after.value_or(policy.in_flight.retry_after)};
}

// Another request with this key is running.
Decision onLiveClaim(const Policy& policy, const ClaimFacts& facts) {
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

// The request that held the claim is believed dead; whether it ran is not known.
Decision onDeadLease(const Policy& policy, const RecordFacts& record) {
  switch (policy.on_lease_expired) {
    case LeaseExpired::Retry:
      return Reclaim{record.state, record.attempt};
    case LeaseExpired::Unknown:
      break;
  }
  return Answer{.problem = Problem::OutcomeUnknown, .retry_after = record.reconcile_after};
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
  if (facts.own_attempt != 0 && facts.own_attempt == record.attempt) {
    return Run{};
  }
  return onLiveClaim(policy, facts);
}

Decision onCompleted(const RecordFacts& record) {
  if (record.has_response) {
    return Replay{};
  }
  return Answer{.problem = Problem::ResponseUnavailable, .original_status = record.status};
}

// A record that is settled no longer counts once its life is over. One that is not settled counts
// for ever: time alone does not tell whether an attempt ran.
bool isOver(const RecordFacts& record) {
  switch (record.state) {
    case RecordState::Expired:
      return true;
    case RecordState::Completed:
    case RecordState::FailedRetryable:
      return record.past_life;
    case RecordState::InProgress:
    case RecordState::Unknown:
      return false;
  }
  return false;
}

// The request is the one that the record was made for.
Decision onSameRequest(const Policy& policy, const ClaimFacts& facts, const RecordFacts& record) {
  if (isOver(record)) {
    return onPastLife(policy, record);
  }
  switch (record.state) {
    case RecordState::InProgress:
      return onInProgress(policy, facts, record);
    case RecordState::Completed:
      return onCompleted(record);
    case RecordState::FailedRetryable:
      return Reclaim{record.state, record.attempt};
    case RecordState::Unknown:
      return Answer{.problem = Problem::OutcomeUnknown, .retry_after = record.reconcile_after};
    case RecordState::Expired:
      break;
  }
  return Answer{.problem = Problem::RecordUnreadable, .retry_after = policy.in_flight.retry_after};
}

Decision onFound(const Policy& policy, const ClaimFacts& facts, const RecordFacts& record) {
  // An expired key that runs as new may come with any request.
  if (isOver(record) && policy.on_expired == ExpiredKey::Run) {
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
  // Most likely a newer build wrote the record: another Envoy may be able to judge it.
  return Answer{.problem = Problem::RecordUnreadable, .retry_after = policy.in_flight.retry_after};
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
  return Claim{};
}

Decision decide(const Policy& policy, const ClaimFacts& facts, const StoreResult& result) {
  return std::visit(
      Overloaded{
          [&](const StoreFailed& failure) { return onStoreFailed(policy, failure); },
          [&](const QuotaReached& quota) -> Decision {
            return Answer{.problem = Problem::QuotaExceeded, .retry_after = quota.retry_after};
          },
          [&](const ClaimGranted&) -> Decision { return Run{}; },
          [&](const RecordFound& found) { return onFound(policy, facts, found.record); },
      },
      result);
}

}  // namespace idempotency
