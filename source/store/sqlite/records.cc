#include "source/store/sqlite/records.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "source/store/audit.h"
#include "source/store/record_rules.h"

namespace idempotency::sqlite {
namespace {

using std::chrono::milliseconds;

store::WriteResult written(store::WriteOutcome outcome) {
  return {.outcome = outcome, .reason = {}};
}

}  // namespace

Records::Records(Database& database, ClockGuard& guard, Uptime uptime)
    : database_(database), guard_(guard), uptime_(std::move(uptime)) {
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
  unsettled_.clear();
  Query(sql(writes ? Sql::BeginWrite : Sql::Begin)).next();
  return lookAtClock();
}

bool Records::lookAtClock() {
  std::optional<int64_t> wall;
  if (Query now(sql(Sql::Now)); now.next()) {
    wall = now.integer(0);
  }
  std::optional<int64_t> remembered;
  if (!guard_.started()) {
    if (Query clock(sql(Sql::ReadClock)); clock.next()) {
      remembered = clock.integer(0);
    }
  }
  if (!wall.has_value() || database_.error() != SQLITE_OK) {
    return false;
  }
  const milliseconds uptime = uptime_();
  if (!guard_.started()) {
    guard_.start(remembered, *wall, uptime);
  }
  now_ = guard_.look(*wall, uptime);
  return true;
}

bool Records::flush() {
  for (const auto& [tenant, records] : use_) {
    if (records != 0) {
      Query(sql(Sql::AddTenantUse), Blob{tenant}, records).run();
    }
    if (records < 0) {
      Query(sql(Sql::ForgetTenant), Blob{tenant}).run();
    }
  }
  for (const auto& [operation, change] : unsettled_) {
    if (change.records != 0 || change.dead_letters != 0) {
      Query(sql(Sql::AddUnsettledUse), Blob{operation}, change.records, change.dead_letters).run();
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
  operation_unsettled_.clear();
}

void Records::closeOperation() {
  if (database_.error() != SQLITE_OK) {
    return;
  }
  for (const auto& [tenant, records] : operation_use_) {
    use_[tenant] += records;
  }
  for (const auto& [operation, change] : operation_unsettled_) {
    Unsettled& sum = unsettled_[operation];
    sum.records += change.records;
    sum.dead_letters += change.dead_letters;
  }
}

void Records::countUse(const std::string& tenant, int64_t records) {
  operation_use_.emplace_back(tenant, records);
}

void Records::countUnsettled(const std::string& operation, const Unsettled& change) {
  operation_unsettled_.emplace_back(operation, change);
}

void Records::countSettled(const ClaimRow& found, const std::string& operation) {
  if (found.state == protocol::RecordState::Unknown) {
    countUnsettled(operation, {.records = -1, .dead_letters = found.dead_letter ? -1 : 0});
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

std::optional<RecordRow> Records::find(const protocol::Identity& identity) {
  Query row(sql(Sql::FindRecord), Blob{identity.tenant}, Blob{identity.operation},
            Blob{identity.key});
  return row.next() ? std::optional<RecordRow>(readRecord(row, now_)) : std::nullopt;
}

// Records that have expired but are not yet reaped are included in tenant_use, but do not count.
// The number of them that would make room limits how many must be read.
bool Records::hasRoom(const store::ClaimRequest& request) {
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
  Query past_life(sql(Sql::CountPastLife), Blob{tenant}, now_.judges, needed);
  return past_life.next() && past_life.integer(0) >= needed;
}

bool Records::insert(const store::ClaimRequest& request) {
  const protocol::Identity& identity = request.identity;
  const int64_t inserted =
      Query(sql(Sql::InsertRecord), Blob{identity.tenant}, Blob{identity.operation},
            Blob{identity.key}, Blob{request.fingerprint}, request.attempt,
            Text{store::FirstRecoveryPoint}, in(request.lease),
            static_cast<int64_t>(request.on_lease_expired), now_.written, in(request.ttl))
          .run();
  if (inserted == 0) {
    return false;
  }
  inserted_.remember(request.attempt, database_.lastInsertedId());
  countUse(identity.tenant, 1);
  return true;
}

store::Claimed Records::reclaim(const store::ClaimRequest& request, const RecordRow& found) {
  const store::Record& record = found.record;
  const bool over = protocol::isOver(record.state, record.past_life);
  const std::string recovery_point =
      over ? std::string(store::FirstRecoveryPoint) : record.recovery_point;
  const int64_t created_at = over ? now_.written : record.created_at.time_since_epoch().count();
  Query(sql(Sql::Reclaim), found.id, Blob{request.fingerprint}, request.attempt,
        static_cast<int64_t>(over ? 0 : 1), Text{recovery_point}, in(request.lease),
        static_cast<int64_t>(request.on_lease_expired), created_at, in(request.ttl), now_.written)
      .run();
  Query(sql(Sql::DeleteResponse), found.id).run();
  if (!found.counted) {
    countUse(request.identity.tenant, 1);
  }
  return {.attempt = request.attempt,
          .expires_at = toTime(in(request.ttl)),
          .recovery_point = recovery_point};
}

store::ClaimResult Records::onFound(const store::ClaimRequest& request, const RecordRow& found) {
  if (!store::mayReclaim(request, found.record)) {
    return store::Exists{found.record};
  }
  const bool adds = found.record.past_life || !found.counted;
  if (adds && !hasRoom(request)) {
    return store::OverQuota{};
  }
  return reclaim(request, found);
}

store::ClaimResult Records::claim(const store::ClaimRequest& request) {
  // With a quota the record is looked for first, so that a refused claim writes nothing.
  if (request.tenant_live_keys.has_value()) {
    if (const std::optional<RecordRow> found = find(request.identity)) {
      return onFound(request, *found);
    }
    if (!hasRoom(request)) {
      return store::OverQuota{};
    }
  }
  if (insert(request)) {
    return store::Claimed{.attempt = request.attempt,
                          .expires_at = toTime(in(request.ttl)),
                          .recovery_point = std::string(store::FirstRecoveryPoint)};
  }
  if (const std::optional<RecordRow> found = find(request.identity)) {
    return onFound(request, *found);
  }
  return store::Unavailable{database_.message()};
}

// --- Writes after the claim

std::optional<ClaimRow> Records::findClaim(const store::ClaimRef& claim) {
  const protocol::Identity& identity = claim.identity;
  Query row(sql(Sql::FindClaim), Blob{identity.tenant}, Blob{identity.operation},
            Blob{identity.key});
  if (!row.next()) {
    return std::nullopt;
  }
  return ClaimRow{.id = row.integer(0),
                  .state = toState(row.integer(1)),
                  .attempt = row.integer(2),
                  .reclaimed = row.integer(3) != 0,
                  .counted = row.isNull(4),
                  .dead_letter = row.integer(5) != 0};
}

store::WriteResult Records::settle(const store::ClaimRef& claim, const protocol::Ending& ending) {
  if (claim.own_transaction) {
    std::optional<RecordRow> found = find(claim.identity);
    if (found.has_value() && store::isCompletedElsewhere(claim, found->record)) {
      return {.outcome = store::WriteOutcome::Done,
              .reason = {},
              .repeated = true,
              .completed = std::move(found->record)};
    }
  }
  if (const auto* const completed = std::get_if<protocol::Completed>(&ending)) {
    const std::optional<int64_t> remembered = inserted_.find(claim.attempt);
    if (remembered.has_value() && complete(*remembered, claim, *completed)) {
      return written(store::WriteOutcome::Done);
    }
  }
  const std::optional<ClaimRow> found = findClaim(claim);
  std::optional<store::RecordHead> head;
  if (found.has_value()) {
    head = store::RecordHead{found->state, found->attempt};
  }
  if (const auto outcome = store::outcomeWithoutWrite(ending, claim.attempt, head)) {
    return {.outcome = *outcome, .reason = {}, .repeated = *outcome == store::WriteOutcome::Done};
  }
  const bool done =
      std::visit([&](const auto& content) { return write(*found, claim, content); }, ending);
  return written(done ? store::WriteOutcome::Done : store::WriteOutcome::Fenced);
}

bool Records::write(const ClaimRow& found, const store::ClaimRef& claim,
                    const protocol::Completed& completed) {
  if (found.state == protocol::RecordState::InProgress && complete(found.id, claim, completed)) {
    return true;
  }
  return completeLate(found, claim, completed);
}

bool Records::complete(int64_t id, const store::ClaimRef& claim,
                       const protocol::Completed& completed) {
  const protocol::Identity& identity = claim.identity;
  const int64_t changed =
      Query(sql(Sql::Complete), id, claim.attempt, static_cast<int64_t>(completed.status),
            static_cast<int64_t>(completed.tombstone),
            static_cast<int64_t>(completed.response_schema), now_.written, Blob{identity.tenant},
            Blob{identity.operation}, Blob{identity.key})
          .run();
  if (changed == 1) {
    keepResult(id, claim.attempt, completed);
  }
  return changed == 1;
}

bool Records::completeLate(const ClaimRow& found, const store::ClaimRef& claim,
                           const protocol::Completed& completed) {
  const int64_t changed =
      Query(sql(Sql::CompleteLate), found.id, claim.attempt, static_cast<int64_t>(completed.status),
            static_cast<int64_t>(completed.tombstone),
            static_cast<int64_t>(completed.response_schema), now_.written)
          .run();
  if (changed == 1) {
    keepResult(found.id, claim.attempt, completed);
    countSettled(found, claim.identity.operation);
    if (!found.counted) {
      countUse(claim.identity.tenant, 1);
    }
  }
  return changed == 1;
}

void Records::keepResult(int64_t id, protocol::Attempt attempt,
                         const protocol::Completed& completed) {
  if (completed.ttl.has_value()) {
    Query(sql(Sql::Renew), id, attempt, in(*completed.ttl)).run();
  }
  if (completed.tombstone == protocol::Tombstone::None) {
    Query(sql(Sql::InsertResponse), id, attempt, Blob{completed.response}).run();
  }
}

bool Records::write(const ClaimRow& found, const store::ClaimRef& claim,
                    const protocol::Failed& failed) {
  return Query(sql(Sql::Fail), found.id, claim.attempt, Text{failed.error}).run() == 1;
}

bool Records::write(const ClaimRow& found, const store::ClaimRef& claim,
                    const protocol::Unknown& unknown) {
  const bool done = Query(sql(Sql::MarkUnknown), found.id, claim.attempt, Text{unknown.error},
                          in(unknown.reconcile_after), now_.written)
                        .run() == 1;
  if (done) {
    countUnsettled(claim.identity.operation, {.records = 1});
  }
  return done;
}

bool Records::write(const ClaimRow& found, const store::ClaimRef& claim,
                    const protocol::Released&) {
  if (found.reclaimed) {
    Query(sql(Sql::Fail), found.id, claim.attempt, Text{""}).run();
    return true;
  }
  Query(sql(Sql::DeleteRecord), found.id, claim.attempt).run();
  countUse(claim.identity.tenant, -1);
  return true;
}

void Records::erase(const ClaimRow& found, const protocol::Identity& identity) {
  Query(sql(Sql::DeleteResponse), found.id).run();
  Query(sql(Sql::DeleteRecord), found.id, found.attempt).run();
  countSettled(found, identity.operation);
  if (found.counted) {
    countUse(identity.tenant, -1);
  }
}

store::ExtendResult Records::extend(const std::vector<store::ClaimRef>& claims,
                                    milliseconds lease) {
  store::ExtendResult results;
  results.reserve(claims.size());
  for (const store::ClaimRef& claim : claims) {
    const std::optional<ClaimRow> found = findClaim(claim);
    const bool ours = found.has_value() && found->attempt == claim.attempt &&
                      found->state == protocol::RecordState::InProgress;
    const bool extended =
        ours && Query(sql(Sql::Extend), found->id, claim.attempt, in(lease)).run() == 1;
    results.push_back(written(extended ? store::WriteOutcome::Done : store::WriteOutcome::Fenced));
  }
  return results;
}

store::LookUpResult Records::lookUp(const protocol::Identity& identity) {
  std::optional<RecordRow> found = find(identity);
  if (!found.has_value()) {
    return store::Absent{};
  }
  return std::move(found->record);
}

// --- Background jobs

std::vector<Records::Due> Records::findDue(Sql which, uint32_t limit) {
  std::vector<Due> all;
  // One more than may be changed tells whether there are more.
  Query row(sql(which), now_.judges, static_cast<int64_t>(limit) + 1);
  while (row.next()) {
    all.push_back({.id = row.integer(0),
                   .identity = {row.bytes(1), row.bytes(2), row.bytes(3)},
                   .attempt = row.integer(4),
                   .value = row.integer(5)});
  }
  return all;
}

void Records::audit(store::AuditAction action, const Due* due, uint64_t records) {
  const std::string_view word = store::name(action);
  if (due == nullptr) {
    Query(sql(Sql::Audit), now_.written, Text{word}, std::optional<int64_t>(),
          std::optional<int64_t>(), std::optional<int64_t>(), std::optional<int64_t>(),
          static_cast<int64_t>(records))
        .run();
    return;
  }
  Query(sql(Sql::Audit), now_.written, Text{word}, Blob{due->identity.tenant},
        Blob{due->identity.operation}, Blob{due->identity.key}, due->attempt,
        static_cast<int64_t>(records))
      .run();
}

store::Leadership Records::lead(std::string_view owner, milliseconds lease) {
  const int64_t taken = Query(sql(Sql::Lead), Text{owner}, in(lease), now_.judges).run();
  // Every process comes here every few seconds.
  Query(sql(Sql::KeepClock), guard_.believed()).run();
  return {.ours = taken == 1 && lease > milliseconds(0), .reason = {}};
}

store::MaintenanceResult Records::sweep(uint32_t limit,
                                        std::optional<milliseconds> reconcile_after) {
  store::MaintenanceResult result{.ok = true, .reason = {}};
  std::vector<Due> all = findDue(Sql::FindDeadLeases, limit);
  if (all.size() > limit) {
    result.more = true;
    all.resize(limit);
  }
  for (const Due& due : all) {
    if (toLeaseExpired(due.value) == protocol::LeaseExpired::Retry) {
      Query(sql(Sql::Fail), due.id, due.attempt, Text{store::LeaseExpiredError}).run();
      audit(store::AuditAction::LeaseToRetry, &due, 1);
      ++result.to_retry;
    } else {
      Query(sql(Sql::MarkUnknown), due.id, due.attempt, Text{store::LeaseExpiredError},
            in(reconcile_after), now_.written)
          .run();
      countUnsettled(due.identity.operation, {.records = 1});
      audit(store::AuditAction::LeaseToUnknown, &due, 1);
      ++result.to_unknown;
    }
  }
  return result;
}

store::MaintenanceResult Records::reap(uint32_t limit, bool soft) {
  if (guard_.doubtsStep()) {
    return {.ok = false,
            .reason =
                "the machine's clock has been set; no record is removed before the new time "
                "has lasted for ten minutes"};
  }
  store::MaintenanceResult result{.ok = true, .reason = {}};
  std::vector<Due> all = findDue(Sql::FindPastLife, limit);
  if (all.size() > limit) {
    result.more = true;
    all.resize(limit);
  }
  for (const Due& due : all) {
    countUse(due.identity.tenant, -1);
    if (toState(due.value) == protocol::RecordState::Unknown) {
      Query(sql(Sql::SetAside), due.id, due.attempt, now_.written).run();
      continue;
    }
    Query(sql(Sql::DeleteResponse), due.id).run();
    if (soft) {
      Query(sql(Sql::Expire), due.id, due.attempt, now_.written).run();
      ++result.expired;
    } else {
      Query(sql(Sql::DeleteRecord), due.id, due.attempt).run();
      ++result.deleted;
    }
  }
  if (result.expired > 0) {
    audit(store::AuditAction::Expire, nullptr, result.expired);
  }
  if (result.deleted > 0) {
    audit(store::AuditAction::Delete, nullptr, result.deleted);
  }
  return result;
}

}  // namespace idempotency::sqlite
