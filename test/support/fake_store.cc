#include "test/support/fake_store.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "source/store/audit.h"

namespace idempotency::test {
namespace {

using std::chrono::milliseconds;

WriteResult written(WriteOutcome outcome) {
  return {.outcome = outcome, .reason = {}};
}

bool isValid(const ClaimRequest& request) {
  return request.attempt > 0;
}

}  // namespace

// --- FakeDatabase

void FakeDatabase::passTime(milliseconds time) {
  const std::lock_guard lock(mutex_);
  now_ += time;
}

StoreTime FakeDatabase::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void FakeDatabase::setRecoveryPoint(const Identity& identity, std::string recovery_point) {
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

Record FakeDatabase::read(const Row& row) const {
  Record record = row.record;
  record.past_life = record.expires_at <= now_;
  record.life_left = std::max(record.expires_at - now_, milliseconds(0));
  if (record.state == RecordState::InProgress && row.lease_until > now_) {
    record.lease_alive = true;
    record.lease_left = row.lease_until - now_;
  }
  if (record.state == RecordState::Unknown && row.reconcile_at.has_value()) {
    record.reconcile_after = std::max(*row.reconcile_at - now_, milliseconds(0));
  }
  return record;
}

bool FakeDatabase::isOver(const Row& row) const {
  switch (row.record.state) {
    case RecordState::Expired:
      return true;
    case RecordState::Completed:
    case RecordState::FailedRetryable:
      return row.record.expires_at <= now_;
    case RecordState::InProgress:
    case RecordState::Unknown:
      break;
  }
  return false;
}

bool FakeDatabase::mayReclaim(const Row& row, const ReclaimFrom& from) const {
  if (row.record.state != from.state || row.record.attempt != from.attempt) {
    return false;
  }
  switch (from.state) {
    case RecordState::FailedRetryable:
    case RecordState::Expired:
      return true;
    case RecordState::InProgress:
      return row.lease_until <= now_;
    case RecordState::Completed:
      return row.record.expires_at <= now_;
    case RecordState::Unknown:
      break;
  }
  return false;
}

bool FakeDatabase::hasRoom(const ClaimRequest& request) const {
  if (!request.tenant_live_keys.has_value()) {
    return true;
  }
  const auto live = std::count_if(rows_.begin(), rows_.end(), [&](const Rows::value_type& entry) {
    const Record& record = entry.second.record;
    return entry.first.tenant == request.identity.tenant && record.state != RecordState::Expired &&
           record.expires_at > now_;
  });
  return static_cast<uint64_t>(live) < *request.tenant_live_keys;
}

ClaimResult FakeDatabase::claim(const ClaimRequest& request) {
  const std::lock_guard lock(mutex_);
  if (!isValid(request)) {
    return Unavailable{"the attempt is not valid"};
  }
  const auto found = rows_.find(request.identity);
  Row row;
  bool adds = true;
  if (found != rows_.end()) {
    if (!request.from.has_value() || !mayReclaim(found->second, *request.from)) {
      return Exists{read(found->second)};
    }
    adds = found->second.record.state == RecordState::Expired ||
           found->second.record.expires_at <= now_;
    if (!isOver(found->second)) {
      row.reclaimed = true;
      row.record.created_at = found->second.record.created_at;
      row.record.recovery_point = found->second.record.recovery_point;
    }
  }
  if (adds && !hasRoom(request)) {
    return OverQuota{};
  }
  if (!row.reclaimed) {
    row.record.created_at = now_;
    row.record.recovery_point = FirstRecoveryPoint;
  }
  row.record.state = RecordState::InProgress;
  row.record.attempt = request.attempt;
  row.record.fingerprint = request.fingerprint;
  row.record.expires_at = now_ + request.ttl;
  row.lease_until = now_ + request.lease;
  row.on_lease_expired = request.on_lease_expired;
  const Claimed claimed{.attempt = request.attempt,
                        .expires_at = row.record.expires_at,
                        .recovery_point = row.record.recovery_point};
  rows_[request.identity] = std::move(row);
  return claimed;
}

FakeDatabase::Row* FakeDatabase::owned(const ClaimRef& claim) {
  const auto found = rows_.find(claim.identity);
  return found != rows_.end() && found->second.record.attempt == claim.attempt ? &found->second
                                                                               : nullptr;
}

WriteResult FakeDatabase::write(const ClaimRef& claim, RecordState to,
                                const std::function<void(Row&)>& change) {
  const std::lock_guard lock(mutex_);
  Row* const row = owned(claim);
  if (row == nullptr) {
    return written(WriteOutcome::Fenced);
  }
  if (row->record.state == RecordState::InProgress) {
    row->record.state = to;
    change(*row);
    return written(WriteOutcome::Done);
  }
  return written(isReached(to, row->record.state, row->record.tombstone) ? WriteOutcome::Done
                                                                         : WriteOutcome::Fenced);
}

WriteResult FakeDatabase::complete(const CompleteRequest& request) {
  return write(request.claim, RecordState::Completed, [&](Row& row) {
    row.record.status = request.status;
    row.record.tombstone = request.tombstone;
    row.record.response_schema = request.response_schema;
    row.record.completed_at = now_;
    if (request.tombstone == Tombstone::None) {
      row.record.response = request.response;
    }
    if (request.ttl.has_value()) {
      row.record.expires_at = now_ + *request.ttl;
    }
  });
}

WriteResult FakeDatabase::fail(const FailRequest& request) {
  return write(request.claim, RecordState::FailedRetryable,
               [&](Row& row) { row.record.last_error = request.error; });
}

WriteResult FakeDatabase::release(const ClaimRef& claim) {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(claim.identity);
  if (found == rows_.end()) {
    return written(WriteOutcome::Done);
  }
  Row& row = found->second;
  if (row.record.attempt != claim.attempt || row.record.state != RecordState::InProgress) {
    return written(WriteOutcome::Fenced);
  }
  if (row.reclaimed) {
    row.record.state = RecordState::FailedRetryable;
  } else {
    rows_.erase(found);
  }
  return written(WriteOutcome::Done);
}

WriteResult FakeDatabase::markUnknown(const UnknownRequest& request) {
  return write(request.claim, RecordState::Unknown, [&](Row& row) {
    row.record.last_error = request.error;
    if (request.reconcile_after.has_value()) {
      row.reconcile_at = now_ + *request.reconcile_after;
    }
  });
}

ExtendResult FakeDatabase::extend(const std::vector<ClaimRef>& claims, milliseconds lease) {
  const std::lock_guard lock(mutex_);
  ExtendResult results;
  for (const ClaimRef& claim : claims) {
    Row* const row = owned(claim);
    const bool ours = row != nullptr && row->record.state == RecordState::InProgress;
    if (ours) {
      row->lease_until = now_ + lease;
    }
    results.push_back(written(ours ? WriteOutcome::Done : WriteOutcome::Fenced));
  }
  return results;
}

LookUpResult FakeDatabase::lookUp(const Identity& identity) const {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(identity);
  if (found == rows_.end()) {
    return Absent{};
  }
  return read(found->second);
}

Leadership FakeDatabase::lead(const std::string& owner, milliseconds lease) {
  const std::lock_guard lock(mutex_);
  if (leader_ != owner && leader_until_ > now_) {
    return {};
  }
  leader_ = owner;
  leader_until_ = now_ + lease;
  return {.ours = lease > milliseconds(0), .reason = {}};
}

MaintenanceResult FakeDatabase::sweep(uint32_t limit, std::optional<milliseconds> reconcile_after) {
  const std::lock_guard lock(mutex_);
  MaintenanceResult result{.ok = true, .reason = {}};
  for (auto& [identity, row] : rows_) {
    if (row.record.state != RecordState::InProgress || row.lease_until > now_) {
      continue;
    }
    if (result.to_unknown + result.to_retry == limit) {
      result.more = true;
      break;
    }
    row.record.last_error = LeaseExpiredError;
    if (row.on_lease_expired == LeaseExpired::Retry) {
      row.record.state = RecordState::FailedRetryable;
      ++result.to_retry;
      audit_.push_back({std::string(name(AuditAction::LeaseToRetry)), identity, 1});
      continue;
    }
    row.record.state = RecordState::Unknown;
    if (reconcile_after.has_value()) {
      row.reconcile_at = now_ + *reconcile_after;
    }
    ++result.to_unknown;
    audit_.push_back({std::string(name(AuditAction::LeaseToUnknown)), identity, 1});
  }
  return result;
}

MaintenanceResult FakeDatabase::reap(uint32_t limit, bool soft) {
  const std::lock_guard lock(mutex_);
  MaintenanceResult result{.ok = true, .reason = {}};
  for (auto entry = rows_.begin(); entry != rows_.end();) {
    Record& record = entry->second.record;
    const bool given_up = record.state == RecordState::Unknown;
    const bool settled =
        record.state == RecordState::Completed || record.state == RecordState::FailedRetryable;
    if (record.expires_at > now_ || (!given_up && !settled)) {
      ++entry;
      continue;
    }
    if (result.to_failed + result.expired + result.deleted == limit) {
      result.more = true;
      break;
    }
    if (given_up) {
      record.state = RecordState::Completed;
      record.status = AbandonedStatus;
      record.tombstone = Tombstone::Abandoned;
      record.completed_at = now_;
      record.last_error = AbandonedError;
      ++result.to_failed;
      audit_.push_back({std::string(name(AuditAction::GiveUp)), entry->first, 1});
      ++entry;
    } else if (soft) {
      record.state = RecordState::Expired;
      record.response.reset();
      ++result.expired;
      ++entry;
    } else {
      entry = rows_.erase(entry);
      ++result.deleted;
    }
  }
  if (result.expired > 0) {
    audit_.push_back({std::string(name(AuditAction::Expire)), std::nullopt, result.expired});
  }
  if (result.deleted > 0) {
    audit_.push_back({std::string(name(AuditAction::Delete)), std::nullopt, result.deleted});
  }
  return result;
}

// --- FakeStore

FakeStore::FakeStore(std::shared_ptr<FakeDatabase> database)
    : database_(std::move(database)), thread_([this] { run(); }) {}

FakeStore::~FakeStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FakeStore::pause() {
  const std::lock_guard lock(mutex_);
  paused_ = true;
}

void FakeStore::resume() {
  {
    const std::lock_guard lock(mutex_);
    paused_ = false;
  }
  changed_.notify_all();
}

void FakeStore::setFailure(std::optional<std::string> reason) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(reason);
  }
  changed_.notify_all();
}

void FakeStore::loseNextAnswer() {
  const std::lock_guard lock(mutex_);
  lose_next_answer_ = true;
}

StoreStatus FakeStore::status() const {
  const std::lock_guard lock(mutex_);
  StoreStatus status;
  status.queued = operations_.size();
  status.refuses = failure_.has_value();
  status.batches = finished_;
  status.operations = finished_;
  return status;
}

uint64_t FakeStore::operations() {
  const std::lock_guard lock(mutex_);
  return posted_;
}

void FakeStore::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, all = posted_] { return finished_ >= all; });
}

void FakeStore::post(Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    ++posted_;
    operations_.push_back(std::move(operation));
  }
  changed_.notify_all();
}

template <typename Result>
void FakeStore::post(Deadline deadline, std::function<Result(FakeDatabase&)> carryOut,
                     std::function<Result(bool in_doubt, const std::string& reason)> refusal,
                     std::function<void(Result)> done) {
  auto finish = [this, carryOut = std::move(carryOut), refusal = std::move(refusal),
                 done = std::move(done)](Ending ending, const std::string& reason) {
    switch (ending) {
      case Ending::CarriedOut:
        return done(carryOut(*database_));
      case Ending::AnswerLost:
        carryOut(*database_);
        return done(refusal(true, reason));
      case Ending::Refused:
        break;
    }
    done(refusal(false, reason));
  };
  post({.deadline = deadline, .finish = std::move(finish), .claim = {}});
}

void FakeStore::postWrite(Deadline deadline, std::function<WriteResult(FakeDatabase&)> carryOut,
                          std::function<void(WriteResult)> done) {
  post<WriteResult>(
      deadline, std::move(carryOut),
      [](bool in_doubt, const std::string& reason) {
        return WriteResult{in_doubt ? WriteOutcome::InDoubt : WriteOutcome::Unavailable, reason};
      },
      std::move(done));
}

void FakeStore::claim(ClaimRequest request, Deadline deadline,
                      std::function<void(ClaimResult)> done) {
  ClaimRef ref{request.identity, request.attempt};
  auto finish = [this, ref, request = std::move(request), done = std::move(done)](
                    Ending ending, const std::string& reason) {
    switch (ending) {
      case Ending::CarriedOut:
        return done(database_->claim(request));
      case Ending::AnswerLost:
        if (std::holds_alternative<Claimed>(database_->claim(request))) {
          abandon(ref);
        }
        return done(InDoubt{reason});
      case Ending::Refused:
        break;
    }
    done(Unavailable{reason});
  };
  post({.deadline = deadline, .finish = std::move(finish), .claim = std::move(ref)});
}

void FakeStore::abandon(ClaimRef claim) {
  {
    const std::lock_guard lock(mutex_);
    for (Operation& operation : operations_) {
      if (operation.claim.has_value() && operation.claim->attempt == claim.attempt &&
          operation.claim->identity == claim.identity) {
        operation.abandoned = true;
      }
    }
  }
  auto finish = [this, claim = std::move(claim)](Ending ending, const std::string&) {
    if (ending != Ending::Refused) {
      std::ignore = database_->release(claim);
    }
  };
  post({.deadline = Deadline::max(), .finish = std::move(finish), .claim = {}, .own = true});
}

void FakeStore::complete(CompleteRequest request, Deadline deadline,
                         std::function<void(WriteResult)> done) {
  postWrite(
      deadline,
      [request = std::move(request)](FakeDatabase& database) { return database.complete(request); },
      std::move(done));
}

void FakeStore::fail(FailRequest request, Deadline deadline,
                     std::function<void(WriteResult)> done) {
  postWrite(
      deadline,
      [request = std::move(request)](FakeDatabase& database) { return database.fail(request); },
      std::move(done));
}

void FakeStore::release(ClaimRef claim, Deadline deadline, std::function<void(WriteResult)> done) {
  postWrite(
      deadline,
      [claim = std::move(claim)](FakeDatabase& database) { return database.release(claim); },
      std::move(done));
}

void FakeStore::markUnknown(UnknownRequest request, Deadline deadline,
                            std::function<void(WriteResult)> done) {
  postWrite(
      deadline,
      [request = std::move(request)](FakeDatabase& database) {
        return database.markUnknown(request);
      },
      std::move(done));
}

void FakeStore::extend(std::vector<ClaimRef> claims, milliseconds lease, Deadline deadline,
                       std::function<void(ExtendResult)> done) {
  const size_t count = claims.size();
  post<ExtendResult>(
      deadline,
      [claims = std::move(claims), lease](FakeDatabase& database) {
        return database.extend(claims, lease);
      },
      [count](bool in_doubt, const std::string& reason) {
        return ExtendResult(
            count,
            WriteResult{in_doubt ? WriteOutcome::InDoubt : WriteOutcome::Unavailable, reason});
      },
      std::move(done));
}

void FakeStore::lookUp(Identity identity, Deadline deadline,
                       std::function<void(LookUpResult)> done) {
  post<LookUpResult>(
      deadline,
      [identity = std::move(identity)](FakeDatabase& database) {
        return database.lookUp(identity);
      },
      [](bool, const std::string& reason) { return Unavailable{reason}; }, std::move(done));
}

void FakeStore::lead(std::string owner, milliseconds lease, Deadline deadline,
                     std::function<void(Leadership)> done) {
  post<Leadership>(
      deadline,
      [owner = std::move(owner), lease](FakeDatabase& database) {
        return database.lead(owner, lease);
      },
      [](bool, const std::string& reason) { return Leadership{.ours = false, .reason = reason}; },
      std::move(done));
}

void FakeStore::sweep(uint32_t limit, std::optional<milliseconds> reconcile_after,
                      Deadline deadline, std::function<void(MaintenanceResult)> done) {
  post<MaintenanceResult>(
      deadline,
      [limit, reconcile_after](FakeDatabase& database) {
        return database.sweep(limit, reconcile_after);
      },
      [](bool, const std::string& reason) {
        return MaintenanceResult{.ok = false, .reason = reason};
      },
      std::move(done));
}

void FakeStore::reap(uint32_t limit, bool soft, Deadline deadline,
                     std::function<void(MaintenanceResult)> done) {
  post<MaintenanceResult>(
      deadline, [limit, soft](FakeDatabase& database) { return database.reap(limit, soft); },
      [](bool, const std::string& reason) {
        return MaintenanceResult{.ok = false, .reason = reason};
      },
      std::move(done));
}

Deadline FakeStore::earliestDeadline() const {
  Deadline earliest = Deadline::max();
  for (const Operation& operation : operations_) {
    earliest = std::min(earliest, operation.deadline);
  }
  return earliest;
}

std::optional<FakeStore::Operation> FakeStore::take(Ending& ending, std::string& reason) {
  const Deadline now = std::chrono::steady_clock::now();
  const auto canEnd = [&](const Operation& operation) {
    const bool stuck = paused_ || (operation.own && failure_.has_value());
    return stopping_ || !stuck || operation.abandoned || operation.deadline <= now;
  };
  const auto found = std::find_if(operations_.begin(), operations_.end(), canEnd);
  if (found == operations_.end()) {
    return std::nullopt;
  }
  Operation operation = std::move(*found);
  operations_.erase(found);
  ending = Ending::Refused;
  if (operation.abandoned) {
    reason = "abandoned";
  } else if (operation.deadline <= now) {
    reason = "deadline";
  } else if (paused_) {
    reason = "stopping";
  } else if (failure_.has_value()) {
    reason = *failure_;
  } else {
    ending = std::exchange(lose_next_answer_, false) ? Ending::AnswerLost : Ending::CarriedOut;
    reason = "answer lost";
  }
  return operation;
}

void FakeStore::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Ending ending = Ending::Refused;
    std::string reason;
    if (std::optional<Operation> operation = take(ending, reason); operation.has_value()) {
      lock.unlock();
      operation->finish(ending, reason);
      operation.reset();  // Its closures may own what calls us.
      lock.lock();
      ++finished_;
      changed_.notify_all();
    } else if (stopping_) {
      return;
    } else if (const Deadline earliest = earliestDeadline(); earliest == Deadline::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, earliest);
    }
  }
}

}  // namespace idempotency::test
