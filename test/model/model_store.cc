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

Identity ModelStore::keyOf(const Identity& identity) const {
  Identity key = identity;
  if (mutant_ == Mutant::TenantIsIgnored) {
    key.tenant = "all";
  }
  return key;
}

void ModelStore::change(const Identity& identity, RecordEvent event,
                        std::optional<ModelRecord> after, Attempt writer) {
  const Identity key = keyOf(identity);
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

bool ModelStore::mayReclaim(const ModelRecord& record, const Reclaim& from) const {
  if (mutant_ == Mutant::NoCompare) {
    return true;
  }
  if (mutant_ == Mutant::UnknownIsRetryable && record.state == RecordState::Unknown) {
    return true;
  }
  if (record.state != from.from_state || record.attempt != from.from_attempt) {
    return false;
  }
  switch (record.state) {
    case RecordState::InProgress:
      return record.lease_until <= now;
    case RecordState::Completed:
      return record.expires_at <= now;
    case RecordState::FailedRetryable:
    case RecordState::Expired:
      return true;
    case RecordState::Unknown:
      return false;
  }
  return false;
}

std::optional<ModelRecord> ModelStore::claim(const Identity& identity, int body, Attempt attempt,
                                             LeaseExpired on_lease_expired,
                                             const std::optional<Reclaim>& from) {
  ModelRecord mine{.state = RecordState::InProgress,
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
           record.state == RecordState::InProgress ? RecordEvent::ReclaimDeadLease
                                                   : RecordEvent::Reclaim,
           mine);
    return std::nullopt;
  }
  return record;
}

void ModelStore::write(const Identity& identity, Attempt attempt, StoreAction action,
                       const std::optional<ModelResponse>& response, int status) {
  const auto found = records_.find(keyOf(identity));
  const bool fenced = found == records_.end() || found->second.attempt != attempt ||
                      found->second.state != RecordState::InProgress;
  if (found == records_.end() || (fenced && mutant_ != Mutant::NoFencing)) {
    return;
  }
  ModelRecord record = found->second;
  switch (action.kind) {
    case StoreActionKind::Complete:
      record.state = RecordState::Completed;
      record.status = status;
      record.response = action.tombstone == Tombstone::None ? response : std::nullopt;
      change(identity, RecordEvent::Complete, record, attempt);
      return;
    case StoreActionKind::Fail:
      record.state = RecordState::FailedRetryable;
      change(identity, RecordEvent::Fail, record, attempt);
      return;
    case StoreActionKind::Release:
      if (record.reclaimed) {
        record.state = RecordState::FailedRetryable;
        change(identity, RecordEvent::HandBack, record, attempt);
      } else {
        change(identity, RecordEvent::Release, std::nullopt, attempt);
      }
      return;
    case StoreActionKind::MarkUnknown:
      record.state = RecordState::Unknown;
      change(identity, RecordEvent::LoseOutcome, record, attempt);
      return;
    case StoreActionKind::Leave:
      return;
  }
}

void ModelStore::extend(const Identity& identity, Attempt attempt) {
  const auto found = records_.find(keyOf(identity));
  if (found != records_.end() && found->second.attempt == attempt &&
      found->second.state == RecordState::InProgress) {
    found->second.lease_until = now + Lease;
  }
}

void ModelStore::sweep() {
  const auto snapshot = records_;
  for (const auto& [identity, record] : snapshot) {
    if (record.state == RecordState::InProgress && record.lease_until <= now) {
      ModelRecord swept = record;
      const bool retry = record.on_lease_expired == LeaseExpired::Retry;
      swept.state = retry ? RecordState::FailedRetryable : RecordState::Unknown;
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
      case RecordState::InProgress:
      case RecordState::Unknown:
        if (mutant_ == Mutant::UnsettledIsReaped) {
          change(identity, RecordEvent::Delete, std::nullopt);
        } else if (record.state == RecordState::Unknown) {
          reaped.state = RecordState::Completed;
          reaped.status = 408;
          reaped.response = std::nullopt;
          change(identity, RecordEvent::GiveUp, reaped);
        }
        break;
      case RecordState::Completed:
      case RecordState::FailedRetryable:
        if (soft) {
          reaped.state = RecordState::Expired;
          reaped.response = std::nullopt;
          change(identity, RecordEvent::Expire, reaped);
        } else {
          change(identity, RecordEvent::Delete, std::nullopt);
        }
        break;
      case RecordState::Expired:
        if (!soft) {
          change(identity, RecordEvent::Delete, std::nullopt);
        }
        break;
    }
  }
}

void ModelStore::resolveCompleted(const Identity& identity, const ModelResponse& response) {
  ModelRecord record = records_.at(keyOf(identity));
  record.state = RecordState::Completed;
  record.response = response;
  record.status = response.status;
  change(identity, RecordEvent::ResolveCompleted, record);
}

void ModelStore::resolveFailed(const Identity& identity) {
  ModelRecord record = records_.at(keyOf(identity));
  record.state = RecordState::FailedRetryable;
  change(identity, RecordEvent::ResolveFailed, record);
}

}  // namespace idempotency::model
