#include "test/support/fake_database.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "source/store/audit.h"
#include "source/store/record_rules.h"

namespace idempotency::test {
namespace {

using std::chrono::milliseconds;

store::WriteResult written(store::WriteOutcome outcome) {
  return {.outcome = outcome, .reason = {}};
}

bool isValid(const store::ClaimRequest& request) {
  return request.attempt > 0;
}

// --- What a caller gets when its call had no result

store::Unavailable unavailable(const std::string& reason) {
  return {reason, reason == DatabaseStore::QueueFull};
}
store::WriteResult notWritten(bool in_doubt, const std::string& reason) {
  return {in_doubt ? store::WriteOutcome::InDoubt : store::WriteOutcome::Unavailable, reason};
}
store::MaintenanceResult notMaintained(bool, const std::string& reason) {
  return {.ok = false, .reason = reason};
}

}  // namespace

// --- FakeDatabase

void FakeDatabase::passTime(milliseconds time) {
  const std::lock_guard lock(mutex_);
  now_ += time;
}

store::StoreTime FakeDatabase::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void FakeDatabase::setRecoveryPoint(const protocol::Identity& identity,
                                    std::string recovery_point) {
  const std::lock_guard lock(mutex_);
  rows_.at(identity).record.recovery_point = std::move(recovery_point);
}

std::vector<AuditEntry> FakeDatabase::audit() const {
  const std::lock_guard lock(mutex_);
  return audit_;
}

size_t FakeDatabase::size() const {
  const std::lock_guard lock(mutex_);
  return rows_.size();
}

store::Record FakeDatabase::read(const Row& row) const {
  store::Record record = row.record;
  record.past_life = record.expires_at <= now_;
  record.life_left = std::max(record.expires_at - now_, milliseconds(0));
  record.claim_age = now_ - row.claimed_at;
  if (record.state == protocol::RecordState::InProgress && row.lease_until > now_) {
    record.lease_alive = true;
    record.lease_left = row.lease_until - now_;
  }
  if (record.state == protocol::RecordState::Unknown && row.reconcile_at.has_value()) {
    record.reconcile_after = *row.reconcile_at - now_;
  }
  return record;
}

bool FakeDatabase::hasRoom(const store::ClaimRequest& request) const {
  if (!request.tenant_live_keys.has_value()) {
    return true;
  }
  const auto live = std::count_if(rows_.begin(), rows_.end(), [&](const Rows::value_type& entry) {
    const store::Record& record = entry.second.record;
    return entry.first.tenant == request.identity.tenant &&
           record.state != protocol::RecordState::Expired && record.expires_at > now_;
  });
  return static_cast<uint64_t>(live) < *request.tenant_live_keys;
}

store::ClaimResult FakeDatabase::claim(const store::ClaimRequest& request) {
  const std::lock_guard lock(mutex_);
  if (!isValid(request)) {
    return store::Unavailable{"the attempt is not valid"};
  }
  const auto found = rows_.find(request.identity);
  Row row;
  bool adds = true;
  if (found != rows_.end()) {
    const store::Record record = read(found->second);
    if (!store::mayReclaim(request, record)) {
      return store::Exists{record};
    }
    adds = record.state == protocol::RecordState::Expired || record.past_life;
    if (!protocol::isOver(record.state, record.past_life)) {
      row.reclaimed = true;
      row.record.created_at = record.created_at;
      row.record.recovery_point = record.recovery_point;
    }
  }
  if (adds && !hasRoom(request)) {
    return store::OverQuota{};
  }
  if (!row.reclaimed) {
    row.record.created_at = now_;
    row.record.recovery_point = store::FirstRecoveryPoint;
  }
  row.record.state = protocol::RecordState::InProgress;
  row.record.attempt = request.attempt;
  row.record.fingerprint = request.fingerprint;
  row.record.expires_at = now_ + request.ttl;
  row.lease_until = now_ + request.lease;
  row.claimed_at = now_;
  row.record.on_lease_expired = request.on_lease_expired;
  const store::Claimed claimed{.attempt = request.attempt,
                               .expires_at = row.record.expires_at,
                               .recovery_point = row.record.recovery_point};
  rows_[request.identity] = std::move(row);
  return claimed;
}

FakeDatabase::Row* FakeDatabase::owned(const store::ClaimRef& claim) {
  const auto found = rows_.find(claim.identity);
  return found != rows_.end() && found->second.record.attempt == claim.attempt ? &found->second
                                                                               : nullptr;
}

store::WriteResult FakeDatabase::settle(const store::ClaimRef& claim,
                                        const protocol::Ending& ending) {
  const std::lock_guard lock(mutex_);
  const auto row = rows_.find(claim.identity);
  if (row != rows_.end() && store::isCompletedElsewhere(claim, row->second.record)) {
    return {.outcome = store::WriteOutcome::Done,
            .reason = {},
            .repeated = true,
            .completed = read(row->second)};
  }
  std::optional<store::RecordHead> head;
  if (row != rows_.end()) {
    head = store::RecordHead{row->second.record.state, row->second.record.attempt};
  }
  if (const auto outcome = store::outcomeWithoutWrite(ending, claim.attempt, head)) {
    return {.outcome = *outcome, .reason = {}, .repeated = *outcome == store::WriteOutcome::Done};
  }
  std::visit([&](const auto& content) { write(row, content); }, ending);
  return written(store::WriteOutcome::Done);
}

void FakeDatabase::write(Rows::iterator row, const protocol::Completed& completed) {
  store::Record& record = row->second.record;
  const bool late = record.state == protocol::RecordState::Unknown || record.expires_at <= now_;
  if (late) {
    record.expires_at += now_ - row->second.claimed_at;
    record.last_error.clear();
    row->second.reconcile_at.reset();
  }
  record.state = protocol::RecordState::Completed;
  record.status = completed.status;
  record.tombstone = completed.tombstone;
  record.response_schema = completed.response_schema;
  record.completed_at = now_;
  if (completed.tombstone == protocol::Tombstone::None) {
    record.response = completed.response;
  }
  if (completed.ttl.has_value()) {
    record.expires_at = now_ + *completed.ttl;
  }
}

void FakeDatabase::write(Rows::iterator row, const protocol::Failed& failed) {
  row->second.record.state = protocol::RecordState::FailedRetryable;
  row->second.record.last_error = failed.error;
}

void FakeDatabase::write(Rows::iterator row, const protocol::Released&) {
  if (row->second.reclaimed) {
    row->second.record.state = protocol::RecordState::FailedRetryable;
  } else {
    rows_.erase(row);
  }
}

void FakeDatabase::write(Rows::iterator row, const protocol::Unknown& unknown) {
  row->second.record.state = protocol::RecordState::Unknown;
  row->second.record.last_error = unknown.error;
  if (unknown.reconcile_after.has_value()) {
    row->second.reconcile_at = now_ + *unknown.reconcile_after;
  }
}

store::ExtendResult FakeDatabase::extend(const std::vector<store::ClaimRef>& claims,
                                         milliseconds lease) {
  const std::lock_guard lock(mutex_);
  store::ExtendResult results;
  for (const store::ClaimRef& claim : claims) {
    Row* const row = owned(claim);
    const bool ours = row != nullptr && row->record.state == protocol::RecordState::InProgress;
    if (ours) {
      row->lease_until = now_ + lease;
    }
    results.push_back(written(ours ? store::WriteOutcome::Done : store::WriteOutcome::Fenced));
  }
  return results;
}

store::LookUpResult FakeDatabase::lookUp(const protocol::Identity& identity) const {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(identity);
  if (found == rows_.end()) {
    return store::Absent{};
  }
  return read(found->second);
}

store::Leadership FakeDatabase::lead(const std::string& owner, milliseconds lease) {
  const std::lock_guard lock(mutex_);
  if (leader_ != owner && leader_until_ > now_) {
    return {};
  }
  leader_ = owner;
  leader_until_ = now_ + lease;
  return {.ours = lease > milliseconds(0), .reason = {}};
}

store::MaintenanceResult FakeDatabase::sweep(uint32_t limit,
                                             std::optional<milliseconds> reconcile_after) {
  const std::lock_guard lock(mutex_);
  store::MaintenanceResult result{.ok = true, .reason = {}};
  for (auto& [identity, row] : rows_) {
    if (row.record.state != protocol::RecordState::InProgress || row.lease_until > now_) {
      continue;
    }
    if (result.to_unknown + result.to_retry == limit) {
      result.more = true;
      break;
    }
    row.record.last_error = store::LeaseExpiredError;
    if (row.record.on_lease_expired == protocol::LeaseExpired::Retry) {
      row.record.state = protocol::RecordState::FailedRetryable;
      ++result.to_retry;
      audit_.push_back({std::string(store::name(store::AuditAction::LeaseToRetry)), identity, 1});
      continue;
    }
    row.record.state = protocol::RecordState::Unknown;
    if (reconcile_after.has_value()) {
      row.reconcile_at = now_ + *reconcile_after;
    }
    ++result.to_unknown;
    audit_.push_back({std::string(store::name(store::AuditAction::LeaseToUnknown)), identity, 1});
  }
  return result;
}

store::MaintenanceResult FakeDatabase::reap(uint32_t limit, bool soft) {
  const std::lock_guard lock(mutex_);
  store::MaintenanceResult result{.ok = true, .reason = {}};
  for (auto entry = rows_.begin(); entry != rows_.end();) {
    store::Record& record = entry->second.record;
    const bool settled = record.state == protocol::RecordState::Completed ||
                         record.state == protocol::RecordState::FailedRetryable;
    if (record.expires_at > now_ || !settled) {
      ++entry;
      continue;
    }
    if (result.expired + result.deleted == limit) {
      result.more = true;
      break;
    }
    if (soft) {
      record.state = protocol::RecordState::Expired;
      record.response.reset();
      ++result.expired;
      ++entry;
    } else {
      entry = rows_.erase(entry);
      ++result.deleted;
    }
  }
  if (result.expired > 0) {
    audit_.push_back(
        {std::string(store::name(store::AuditAction::Expire)), std::nullopt, result.expired});
  }
  if (result.deleted > 0) {
    audit_.push_back(
        {std::string(store::name(store::AuditAction::Delete)), std::nullopt, result.deleted});
  }
  return result;
}

// --- DatabaseStore

template <typename Result>
void DatabaseStore::call(store::Deadline deadline, std::function<Result(FakeDatabase&)> effect,
                         std::function<Result(bool in_doubt, const std::string& reason)> failure,
                         std::function<void(Result)> done, std::optional<store::ClaimRef> claim) {
  const auto result = std::make_shared<std::optional<Result>>();
  Call made;
  made.deadline = deadline;
  made.claim = std::move(claim);
  made.effect = [database = database_, effect = std::move(effect), result] {
    *result = effect(*database);
  };
  made.answer = [failure = std::move(failure), done = std::move(done), result](
                    Verdict verdict, const std::string& reason) {
    if (verdict == Verdict::True) {
      done(*std::move(*result));
    } else {
      done(failure(verdict == Verdict::InDoubt, reason));
    }
  };
  post(std::move(made));
}

void DatabaseStore::claim(store::ClaimRequest request, store::Deadline deadline,
                          std::function<void(store::ClaimResult)> done) {
  store::ClaimRef ref{request.identity, request.attempt};
  call<store::ClaimResult>(
      deadline,
      [request = std::move(request)](FakeDatabase& database) { return database.claim(request); },
      [](bool in_doubt, const std::string& reason) {
        return in_doubt ? store::ClaimResult(store::InDoubt{reason}) : unavailable(reason);
      },
      std::move(done), std::move(ref));
}

void DatabaseStore::settle(store::ClaimRef claim, protocol::Ending ending, store::Deadline deadline,
                           std::function<void(store::WriteResult)> done) {
  call<store::WriteResult>(
      deadline,
      [claim = std::move(claim), ending = std::move(ending)](FakeDatabase& database) {
        return database.settle(claim, ending);
      },
      notWritten, std::move(done));
}

void DatabaseStore::extend(std::vector<store::ClaimRef> claims, milliseconds lease,
                           store::Deadline deadline,
                           std::function<void(store::ExtendResult)> done) {
  const size_t count = claims.size();
  call<store::ExtendResult>(
      deadline,
      [claims = std::move(claims), lease](FakeDatabase& database) {
        return database.extend(claims, lease);
      },
      [count](bool in_doubt, const std::string& reason) {
        return store::ExtendResult(count, notWritten(in_doubt, reason));
      },
      std::move(done));
}

void DatabaseStore::lookUp(protocol::Identity identity, store::Deadline deadline,
                           std::function<void(store::LookUpResult)> done) {
  call<store::LookUpResult>(
      deadline,
      [identity = std::move(identity)](FakeDatabase& database) {
        return database.lookUp(identity);
      },
      [](bool, const std::string& reason) { return unavailable(reason); }, std::move(done));
}

void DatabaseStore::lookUpMany(std::vector<protocol::Identity> identities, store::Deadline deadline,
                               store::LookUpManyCallback done) {
  const size_t count = identities.size();
  call<std::vector<store::LookUpResult>>(
      deadline,
      [identities = std::move(identities)](FakeDatabase& database) {
        std::vector<store::LookUpResult> results;
        for (const protocol::Identity& identity : identities) {
          results.push_back(database.lookUp(identity));
        }
        return results;
      },
      [count](bool, const std::string& reason) {
        return std::vector<store::LookUpResult>(count, unavailable(reason));
      },
      [done = std::move(done)](const std::vector<store::LookUpResult>& results) {
        for (size_t i = 0; i < results.size(); ++i) {
          done(i, results[i]);
        }
      });
}

void DatabaseStore::lead(std::string owner, milliseconds lease, store::Deadline deadline,
                         std::function<void(store::Leadership)> done) {
  call<store::Leadership>(
      deadline,
      [owner = std::move(owner), lease](FakeDatabase& database) {
        return database.lead(owner, lease);
      },
      [](bool, const std::string& reason) {
        return store::Leadership{.ours = false, .reason = reason};
      },
      std::move(done));
}

void DatabaseStore::sweep(uint32_t limit, std::optional<milliseconds> reconcile_after,
                          store::Deadline deadline,
                          std::function<void(store::MaintenanceResult)> done) {
  call<store::MaintenanceResult>(
      deadline,
      [limit, reconcile_after](FakeDatabase& database) {
        return database.sweep(limit, reconcile_after);
      },
      notMaintained, std::move(done));
}

void DatabaseStore::reap(uint32_t limit, bool soft, store::Deadline deadline,
                         std::function<void(store::MaintenanceResult)> done) {
  call<store::MaintenanceResult>(
      deadline, [limit, soft](FakeDatabase& database) { return database.reap(limit, soft); },
      notMaintained, std::move(done));
}

}  // namespace idempotency::test
