#include "test/model/model_store.h"

namespace idempotency::model {

std::string_view name(Mutant mutant) {
  switch (mutant) {
    case Mutant::None:
      return "None";
    case Mutant::NoFencing:
      return "NoFencing";
    case Mutant::NoCompare:
      return "NoCompare";
    case Mutant::UnknownIsRetryable:
      return "UnknownIsRetryable";
    case Mutant::DeadLeaseIsRetried:
      return "DeadLeaseIsRetried";
    case Mutant::UnknownIsReleased:
      return "UnknownIsReleased";
    case Mutant::RetriesAreForgotten:
      return "RetriesAreForgotten";
    case Mutant::UnsettledIsReaped:
      return "UnsettledIsReaped";
    case Mutant::ClaimWithoutRecord:
      return "ClaimWithoutRecord";
    case Mutant::TenantIsIgnored:
      return "TenantIsIgnored";
    case Mutant::FingerprintIsIgnored:
      return "FingerprintIsIgnored";
  }
  return "invalid";
}

protocol::Identity ModelStore::keyOf(const protocol::Identity& identity) const {
  protocol::Identity key = identity;
  if (mutant_ == Mutant::TenantIsIgnored) {
    key.tenant = "all";
  }
  return key;
}

void ModelStore::change(const protocol::Identity& identity, RecordEvent event,
                        std::optional<ModelRecord> after, protocol::Attempt writer) {
  const protocol::Identity key = keyOf(identity);
  const auto found = records_.find(key);
  Change change{identity, event, std::nullopt, after, writer};
  if (found != records_.end()) {
    change.before = found->second;
  }
  if (after.has_value()) {
    records_[key] = *after;
  } else {
    records_.erase(key);
  }
  changes_.push_back(std::move(change));
}

std::vector<Change> ModelStore::takeChanges() {
  return std::exchange(changes_, {});
}

bool ModelStore::mayReclaim(const ModelRecord& record, const protocol::Reclaim& from) const {
  if (mutant_ == Mutant::NoCompare) {
    return true;
  }
  if (mutant_ == Mutant::UnknownIsRetryable && record.state == protocol::RecordState::Unknown) {
    return true;
  }
  if (record.state != from.from_state || record.attempt != from.from_attempt) {
    return false;
  }
  switch (record.state) {
    case protocol::RecordState::InProgress:
      return record.lease_until <= now &&
             (record.on_lease_expired == protocol::LeaseExpired::Retry ||
              mutant_ == Mutant::DeadLeaseIsRetried);
    case protocol::RecordState::Completed:
      return record.expires_at <= now;
    case protocol::RecordState::FailedRetryable:
    case protocol::RecordState::Expired:
      return true;
    case protocol::RecordState::Unknown:
      return false;
  }
  return false;
}

std::optional<ModelRecord> ModelStore::claim(const protocol::Identity& identity, int body,
                                             protocol::Attempt attempt,
                                             protocol::LeaseExpired on_lease_expired,
                                             const std::optional<protocol::Reclaim>& from) {
  ModelRecord mine{.state = protocol::RecordState::InProgress,
                   .attempt = attempt,
                   .body = body,
                   .lease_until = now + Lease,
                   .expires_at = now + Ttl,
                   .on_lease_expired = on_lease_expired,
                   .response = std::nullopt,
                   .status = 0,
                   .reclaimed = false};
  const auto found = records_.find(keyOf(identity));
  if (found == records_.end()) {
    change(identity, RecordEvent::Claim, mine);
    return std::nullopt;
  }
  const ModelRecord record = found->second;
  if (from.has_value() && mayReclaim(record, *from)) {
    mine.reclaimed = true;
    change(identity,
           record.state == protocol::RecordState::InProgress ? RecordEvent::ReclaimDeadLease
                                                             : RecordEvent::Reclaim,
           mine);
    return std::nullopt;
  }
  return record;
}

void ModelStore::write(const protocol::Identity& identity, protocol::Attempt attempt,
                       protocol::AttemptEnding ending, const std::optional<ModelResponse>& response,
                       int status) {
  const auto found = records_.find(keyOf(identity));
  const bool late = ending.kind == protocol::EndingKind::Completed && found != records_.end() &&
                    found->second.state == protocol::RecordState::Unknown;
  const bool fenced = found == records_.end() || found->second.attempt != attempt ||
                      (found->second.state != protocol::RecordState::InProgress && !late);
  if (found == records_.end() || (fenced && mutant_ != Mutant::NoFencing)) {
    return;
  }
  ModelRecord record = found->second;
  switch (ending.kind) {
    case protocol::EndingKind::Completed:
      record.state = protocol::RecordState::Completed;
      record.expires_at = late || record.expires_at <= now ? now + Ttl : record.expires_at;
      record.status = status;
      record.response = ending.tombstone == protocol::Tombstone::None ? response : std::nullopt;
      change(identity, RecordEvent::Complete, record, attempt);
      return;
    case protocol::EndingKind::Retryable:
      record.state = protocol::RecordState::FailedRetryable;
      change(identity, RecordEvent::Fail, record, attempt);
      return;
    case protocol::EndingKind::Released:
      if (record.reclaimed) {
        record.state = protocol::RecordState::FailedRetryable;
        change(identity, RecordEvent::HandBack, record, attempt);
      } else {
        change(identity, RecordEvent::Release, std::nullopt, attempt);
      }
      return;
    case protocol::EndingKind::Unknown:
      record.state = protocol::RecordState::Unknown;
      change(identity, RecordEvent::LoseOutcome, record, attempt);
      return;
    case protocol::EndingKind::Redirected:
      return;
  }
}

void ModelStore::extend(const protocol::Identity& identity, protocol::Attempt attempt) {
  const auto found = records_.find(keyOf(identity));
  if (found != records_.end() && found->second.attempt == attempt &&
      found->second.state == protocol::RecordState::InProgress) {
    found->second.lease_until = now + Lease;
  }
}

void ModelStore::sweep() {
  const auto snapshot = records_;
  for (const auto& [identity, record] : snapshot) {
    if (record.state == protocol::RecordState::InProgress && record.lease_until <= now) {
      ModelRecord swept = record;
      const bool retry = record.on_lease_expired == protocol::LeaseExpired::Retry;
      swept.state = retry ? protocol::RecordState::FailedRetryable : protocol::RecordState::Unknown;
      change(identity, retry ? RecordEvent::AllowRetry : RecordEvent::RunOutOfLease, swept);
    }
  }
}

void ModelStore::reap(bool soft) {
  const auto snapshot = records_;
  for (const auto& [identity, record] : snapshot) {
    if (record.expires_at > now) {
      continue;
    }
    ModelRecord reaped = record;
    switch (record.state) {
      case protocol::RecordState::InProgress:
      case protocol::RecordState::Unknown:
        if (mutant_ == Mutant::UnsettledIsReaped) {
          change(identity, RecordEvent::Delete, std::nullopt);
        }
        break;
      case protocol::RecordState::Completed:
      case protocol::RecordState::FailedRetryable:
        if (soft) {
          reaped.state = protocol::RecordState::Expired;
          reaped.response = std::nullopt;
          change(identity, RecordEvent::Expire, reaped);
        } else {
          change(identity, RecordEvent::Delete, std::nullopt);
        }
        break;
      case protocol::RecordState::Expired:
        if (!soft) {
          change(identity, RecordEvent::Delete, std::nullopt);
        }
        break;
    }
  }
}

void ModelStore::resolveCompleted(const protocol::Identity& identity,
                                  const ModelResponse& response) {
  ModelRecord record = records_.at(keyOf(identity));
  record.state = protocol::RecordState::Completed;
  record.response = response;
  record.status = response.status;
  change(identity, RecordEvent::ResolveCompleted, record);
}

void ModelStore::resolveFailed(const protocol::Identity& identity) {
  ModelRecord record = records_.at(keyOf(identity));
  record.state = protocol::RecordState::FailedRetryable;
  change(identity, RecordEvent::ResolveFailed, record);
}

}  // namespace idempotency::model
