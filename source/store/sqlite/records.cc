#include "source/store/sqlite/records.h"

#include <algorithm>
#include <utility>

#include "source/store/audit.h"

namespace idempotency::sqlite {
namespace {

using std::chrono::milliseconds;

StoreTime toTime(int64_t value) {
  return StoreTime(milliseconds(value));
}

WriteResult written(WriteOutcome outcome) {
  return {.outcome = outcome, .reason = {}};
}

// A number that no version of the tables allows reads as Unknown: the state that nothing moves.
RecordState toState(int64_t value) {
  switch (value) {
    case static_cast<int64_t>(RecordState::InProgress):
      return RecordState::InProgress;
    case static_cast<int64_t>(RecordState::Completed):
      return RecordState::Completed;
    case static_cast<int64_t>(RecordState::FailedRetryable):
      return RecordState::FailedRetryable;
    case static_cast<int64_t>(RecordState::Expired):
      return RecordState::Expired;
    default:
      return RecordState::Unknown;
  }
}

}  // namespace

Records::Records(Database& database) : database_(database) {
  statements_.reserve(SqlCount);
  for (const std::string_view text : statementTexts()) {
    statements_.emplace_back(database, text);
  }
}

std::optional<int64_t> Records::in(const std::optional<milliseconds>& time) const {
  return time.has_value() ? std::optional<int64_t>(in(*time)) : std::nullopt;
}

// --- Transactions

bool Records::begin(bool writes) {
  use_.clear();
  Query(sql(writes ? Sql::BeginWrite : Sql::Begin)).next();
  if (Query now(sql(Sql::Now)); now.next()) {
    now_ = now.integer(0);
  }
  return database_.error() == SQLITE_OK;
}

bool Records::flush() {
  for (const auto& [tenant, records] : use_) {
    if (records != 0) {
      Query(sql(Sql::AddTenantUse), Blob{tenant}, records).run();
    }
  }
  return database_.error() == SQLITE_OK;
}

bool Records::commit() {
  Query(sql(Sql::Commit)).next();
  return database_.error() == SQLITE_OK;
}

void Records::openOperation() {
  operation_use_.clear();
}

void Records::closeOperation() {
  if (database_.error() != SQLITE_OK) {
    return;
  }
  for (const auto& [tenant, records] : operation_use_) {
    use_[tenant] += records;
  }
}

void Records::setSavepoint() {
  Query(sql(Sql::Savepoint)).next();
}

void Records::dropSavepoint() {
  if (database_.error() == SQLITE_OK) {
    Query(sql(Sql::Release)).next();
    return;
  }
  // An error may have ended the whole transaction.
  if (database_.inTransaction()) {
    sqlite3_exec(database_.handle(), "ROLLBACK TO operation; RELEASE operation", nullptr, nullptr,
                 nullptr);
  }
}

// --- Claim

std::optional<Records::Found> Records::find(const Identity& identity) {
  Query row(sql(Sql::FindRecord), Blob{identity.tenant}, Blob{identity.operation},
            Blob{identity.key});
  if (!row.next()) {
    return std::nullopt;
  }
  Found found;
  Record& record = found.record;
  found.id = row.integer(0);
  record.state = toState(row.integer(1));
  record.attempt = row.integer(2);
  found.reclaimed = row.integer(3) != 0;
  record.fingerprint = row.bytes(4);
  record.recovery_point = row.bytes(5);
  found.lease_until = row.integer(6);
  record.created_at = toTime(row.integer(7));
  record.expires_at = toTime(row.integer(8));
  record.past_life = row.integer(8) <= now_;
  record.life_left = milliseconds(std::max<int64_t>(row.integer(8) - now_, 0));
  if (const std::optional<int64_t> completed_at = row.optionalInteger(9)) {
    record.completed_at = toTime(*completed_at);
  }
  const std::optional<int64_t> reconcile_after = row.optionalInteger(10);
  record.dead_letter = row.integer(11) != 0;
  record.last_error = row.bytes(12);
  record.status = static_cast<int32_t>(row.integer(13));
  record.tombstone = static_cast<Tombstone>(row.integer(14));
  record.response_schema = static_cast<int16_t>(row.integer(15));
  if (!row.isNull(16)) {
    record.response = row.bytes(16);
  }
  if (record.state == RecordState::InProgress && found.lease_until > now_) {
    record.lease_alive = true;
    record.lease_left = milliseconds(found.lease_until - now_);
  }
  if (record.state == RecordState::Unknown && !record.dead_letter && reconcile_after.has_value()) {
    record.reconcile_after = milliseconds(std::max<int64_t>(*reconcile_after - now_, 0));
  }
  return found;
}

bool Records::isOver(const Record& record) const {
  switch (record.state) {
    case RecordState::Expired:
      return true;
    case RecordState::Completed:
    case RecordState::FailedRetryable:
      return record.past_life;
    case RecordState::InProgress:
    case RecordState::Unknown:
      break;
  }
  return false;
}

bool Records::mayReclaim(const Found& found, const ReclaimFrom& from) const {
  if (found.record.state != from.state || found.record.attempt != from.attempt) {
    return false;
  }
  switch (from.state) {
    case RecordState::FailedRetryable:
    case RecordState::Expired:
      return true;
    case RecordState::InProgress:
      return !found.record.lease_alive;
    case RecordState::Completed:
      return found.record.past_life;
    case RecordState::Unknown:
      break;
  }
  return false;
}

// Records that are past their life but not yet reaped are in tenant_use, and do not count. How many
// of them it takes to make room says how few must be looked at.
bool Records::hasRoom(const ClaimRequest& request) {
  if (!request.tenant_live_keys.has_value()) {
    return true;
  }
  const std::string& tenant = request.identity.tenant;
  int64_t records = 0;
  if (const auto here = use_.find(tenant); here != use_.end()) {
    records += here->second;
  }
  if (Query use(sql(Sql::TenantUse), Blob{tenant}); use.next()) {
    records += use.integer(0);
  }
  if (records < 0 || static_cast<uint64_t>(records) < *request.tenant_live_keys) {
    return true;
  }
  const int64_t needed = records - static_cast<int64_t>(*request.tenant_live_keys) + 1;
  Query past_life(sql(Sql::CountPastLife), Blob{tenant}, now_, needed);
  return past_life.next() && past_life.integer(0) >= needed;
}

bool Records::insert(const ClaimRequest& request) {
  const Identity& identity = request.identity;
  const int64_t inserted =
      Query(sql(Sql::InsertRecord), Blob{identity.tenant}, Blob{identity.operation},
            Blob{identity.key}, Blob{request.fingerprint}, request.attempt,
            Text{FirstRecoveryPoint}, in(request.lease),
            static_cast<int64_t>(request.on_lease_expired), now_, in(request.ttl))
          .run();
  if (inserted == 0) {
    return false;
  }
  inserted_.remember(request.attempt, database_.lastInsertedId());
  operation_use_.emplace_back(identity.tenant, 1);
  return true;
}

Claimed Records::reclaim(const ClaimRequest& request, const Found& found) {
  const Record& record = found.record;
  const bool over = isOver(record);
  const std::string recovery_point = over ? std::string(FirstRecoveryPoint) : record.recovery_point;
  const int64_t created_at = over ? now_ : record.created_at.time_since_epoch().count();
  Query(sql(Sql::Reclaim), found.id, Blob{request.fingerprint}, request.attempt,
        static_cast<int64_t>(over ? 0 : 1), Text{recovery_point}, in(request.lease),
        static_cast<int64_t>(request.on_lease_expired), created_at, in(request.ttl))
      .run();
  Query(sql(Sql::DeleteResponse), found.id).run();
  if (record.state == RecordState::Expired) {
    operation_use_.emplace_back(request.identity.tenant, 1);
  }
  return {.attempt = request.attempt,
          .expires_at = toTime(in(request.ttl)),
          .recovery_point = recovery_point};
}

ClaimResult Records::onFound(const ClaimRequest& request, const Found& found) {
  if (!request.from.has_value() || !mayReclaim(found, *request.from)) {
    return Exists{found.record};
  }
  const bool adds = found.record.past_life || found.record.state == RecordState::Expired;
  if (adds && !hasRoom(request)) {
    return OverQuota{};
  }
  return reclaim(request, found);
}

ClaimResult Records::run(const ClaimRequest& request) {
  // With a quota the record is looked for first, so that a refused claim writes nothing.
  if (request.tenant_live_keys.has_value()) {
    if (const std::optional<Found> found = find(request.identity)) {
      return onFound(request, *found);
    }
    if (!hasRoom(request)) {
      return OverQuota{};
    }
  }
  if (insert(request)) {
    return Claimed{.attempt = request.attempt,
                   .expires_at = toTime(in(request.ttl)),
                   .recovery_point = std::string(FirstRecoveryPoint)};
  }
  if (const std::optional<Found> found = find(request.identity)) {
    return onFound(request, *found);
  }
  return Unavailable{database_.message()};
}

// --- Writes after the claim

std::optional<Records::Claim> Records::findClaim(const ClaimRef& claim) {
  const Identity& identity = claim.identity;
  Query row(sql(Sql::FindClaim), Blob{identity.tenant}, Blob{identity.operation},
            Blob{identity.key});
  if (!row.next()) {
    return std::nullopt;
  }
  return Claim{.id = row.integer(0),
               .state = toState(row.integer(1)),
               .attempt = row.integer(2),
               .reclaimed = row.integer(3) != 0,
               .tombstone = static_cast<Tombstone>(row.integer(4))};
}

std::optional<WriteOutcome> Records::judge(const std::optional<Claim>& found, const ClaimRef& claim,
                                           RecordState to) const {
  if (!found.has_value() || found->attempt != claim.attempt) {
    return WriteOutcome::Fenced;
  }
  if (found->state == RecordState::InProgress) {
    return std::nullopt;
  }
  return isReached(to, found->state, found->tombstone) ? WriteOutcome::Done : WriteOutcome::Fenced;
}

bool Records::complete(int64_t id, const CompleteRequest& request) {
  const Identity& identity = request.claim.identity;
  const int64_t completed =
      Query(sql(Sql::Complete), id, request.claim.attempt, static_cast<int64_t>(request.status),
            static_cast<int64_t>(request.tombstone), static_cast<int64_t>(request.response_schema),
            now_, Blob{identity.tenant}, Blob{identity.operation}, Blob{identity.key})
          .run();
  if (completed == 1 && request.ttl.has_value()) {
    Query(sql(Sql::Renew), id, request.claim.attempt, in(*request.ttl)).run();
  }
  if (completed == 1 && request.tombstone == Tombstone::None) {
    Query(sql(Sql::InsertResponse), id, request.claim.attempt, Blob{request.response}).run();
  }
  return completed == 1;
}

WriteResult Records::run(const CompleteRequest& request) {
  const std::optional<int64_t> remembered = inserted_.find(request.claim.attempt);
  if (remembered.has_value() && complete(*remembered, request)) {
    return written(WriteOutcome::Done);
  }
  const std::optional<Claim> found = findClaim(request.claim);
  if (const auto judged = judge(found, request.claim, RecordState::Completed)) {
    return written(*judged);
  }
  return written(complete(found->id, request) ? WriteOutcome::Done : WriteOutcome::Fenced);
}

WriteResult Records::run(const FailRequest& request) {
  const std::optional<Claim> found = findClaim(request.claim);
  if (const auto judged = judge(found, request.claim, RecordState::FailedRetryable)) {
    return written(*judged);
  }
  const int64_t failed =
      Query(sql(Sql::Fail), found->id, request.claim.attempt, Text{request.error}).run();
  return written(failed == 1 ? WriteOutcome::Done : WriteOutcome::Fenced);
}

WriteResult Records::run(const UnknownRequest& request) {
  const std::optional<Claim> found = findClaim(request.claim);
  if (const auto judged = judge(found, request.claim, RecordState::Unknown)) {
    return written(*judged);
  }
  const int64_t marked = Query(sql(Sql::MarkUnknown), found->id, request.claim.attempt,
                               Text{request.error}, in(request.reconcile_after))
                             .run();
  return written(marked == 1 ? WriteOutcome::Done : WriteOutcome::Fenced);
}

WriteResult Records::takeBack(const Claim& found, const Identity& identity) {
  if (found.reclaimed) {
    Query(sql(Sql::Fail), found.id, found.attempt, Text{""}).run();
    return written(WriteOutcome::Done);
  }
  Query(sql(Sql::DeleteRecord), found.id, found.attempt).run();
  operation_use_.emplace_back(identity.tenant, -1);
  return written(WriteOutcome::Done);
}

WriteResult Records::run(const ReleaseRequest& request) {
  const std::optional<Claim> found = findClaim(request.claim);
  if (!found.has_value()) {
    return written(WriteOutcome::Done);
  }
  if (found->attempt != request.claim.attempt || found->state != RecordState::InProgress) {
    return written(WriteOutcome::Fenced);
  }
  return takeBack(*found, request.claim.identity);
}

ExtendResult Records::run(const ExtendRequest& request) {
  ExtendResult results;
  results.reserve(request.claims.size());
  for (const ClaimRef& claim : request.claims) {
    const std::optional<Claim> found = findClaim(claim);
    const bool ours = found.has_value() && found->attempt == claim.attempt &&
                      found->state == RecordState::InProgress;
    const bool extended =
        ours && Query(sql(Sql::Extend), found->id, claim.attempt, in(request.lease)).run() == 1;
    results.push_back(written(extended ? WriteOutcome::Done : WriteOutcome::Fenced));
  }
  return results;
}

LookUpResult Records::run(const LookUpRequest& request) {
  std::optional<Found> found = find(request.identity);
  if (!found.has_value()) {
    return Absent{};
  }
  return std::move(found->record);
}

// --- Background jobs

std::vector<Records::Due> Records::findDue(Sql which, uint32_t limit) {
  std::vector<Due> all;
  // One more than may be changed tells whether there are more.
  Query row(sql(which), now_, static_cast<int64_t>(limit) + 1);
  while (row.next()) {
    all.push_back({.id = row.integer(0),
                   .identity = {row.bytes(1), row.bytes(2), row.bytes(3)},
                   .attempt = row.integer(4),
                   .value = row.integer(5)});
  }
  return all;
}

void Records::audit(AuditAction action, const Due* due, uint64_t records) {
  const std::string_view word = name(action);
  if (due == nullptr) {
    Query(sql(Sql::Audit), now_, Text{word}, std::optional<int64_t>(), std::optional<int64_t>(),
          std::optional<int64_t>(), std::optional<int64_t>(), static_cast<int64_t>(records))
        .run();
    return;
  }
  Query(sql(Sql::Audit), now_, Text{word}, Blob{due->identity.tenant},
        Blob{due->identity.operation}, Blob{due->identity.key}, due->attempt,
        static_cast<int64_t>(records))
      .run();
}

Leadership Records::run(const LeadRequest& request) {
  const int64_t taken = Query(sql(Sql::Lead), Text{request.owner}, in(request.lease), now_).run();
  return {.ours = taken == 1 && request.lease > milliseconds(0), .reason = {}};
}

MaintenanceResult Records::run(const SweepRequest& request) {
  MaintenanceResult result{.ok = true, .reason = {}};
  std::vector<Due> all = findDue(Sql::FindDeadLeases, request.limit);
  if (all.size() > request.limit) {
    result.more = true;
    all.resize(request.limit);
  }
  for (const Due& due : all) {
    if (due.value == static_cast<int64_t>(LeaseExpired::Retry)) {
      Query(sql(Sql::Fail), due.id, due.attempt, Text{LeaseExpiredError}).run();
      audit(AuditAction::LeaseToRetry, &due, 1);
      ++result.to_retry;
    } else {
      Query(sql(Sql::MarkUnknown), due.id, due.attempt, Text{LeaseExpiredError},
            in(request.reconcile_after))
          .run();
      audit(AuditAction::LeaseToUnknown, &due, 1);
      ++result.to_unknown;
    }
  }
  return result;
}

MaintenanceResult Records::run(const ReapRequest& request) {
  MaintenanceResult result{.ok = true, .reason = {}};
  std::vector<Due> all = findDue(Sql::FindPastLife, request.limit);
  if (all.size() > request.limit) {
    result.more = true;
    all.resize(request.limit);
  }
  for (const Due& due : all) {
    if (toState(due.value) == RecordState::Unknown) {
      Query(sql(Sql::GiveUp), due.id, due.attempt, static_cast<int64_t>(AbandonedStatus),
            static_cast<int64_t>(Tombstone::Abandoned), now_, Text{AbandonedError})
          .run();
      audit(AuditAction::GiveUp, &due, 1);
      ++result.to_failed;
      continue;
    }
    Query(sql(Sql::DeleteResponse), due.id).run();
    if (request.soft) {
      Query(sql(Sql::Expire), due.id, due.attempt, now_).run();
      ++result.expired;
    } else {
      Query(sql(Sql::DeleteRecord), due.id, due.attempt).run();
      ++result.deleted;
    }
    operation_use_.emplace_back(due.identity.tenant, -1);
  }
  if (result.expired > 0) {
    audit(AuditAction::Expire, nullptr, result.expired);
  }
  if (result.deleted > 0) {
    audit(AuditAction::Delete, nullptr, result.deleted);
  }
  return result;
}

}  // namespace idempotency::sqlite
