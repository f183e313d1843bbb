#include "source/store/sqlite/operator_records.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "source/protocol/key_hash.h"
#include "source/protocol/tenant_hash.h"
#include "source/store/audit.h"
#include "source/store/operator_rules.h"

namespace idempotency::sqlite {
namespace {

using protocol::RecordState;
using std::chrono::milliseconds;

}  // namespace

std::set<std::string> distinctOperations(Database& database, OperatorSql next) {
  std::set<std::string> operations;
  Statement statement(database, text(next));
  for (std::string from;;) {
    // The query holds a view of `from`: it must end before `from` changes.
    std::optional<std::string> found;
    if (Query row(statement, Blob{from}); row.next()) {
      found = row.bytes(0);
    }
    if (!found.has_value()) {
      return operations;
    }
    operations.insert(*found);
    // The next one in the order of bytes.
    from = *found + '\0';
  }
}

// --- One record

store::ChangeResult OperatorRecords::change(const store::OperatorChange& change) {
  std::optional<RecordRow> row = records_.find(change.seen.identity);
  store::ChangeResult result;
  if (row.has_value()) {
    row->record.response.reset();
    result.found = row->record;
  }
  result.outcome = store::judgeChange(change.action, change.seen.attempt, result.found);
  if (result.outcome == store::ChangeOutcome::Done && !change.dry_run) {
    apply(change, row->head());
  }
  return result;
}

void OperatorRecords::apply(const store::OperatorChange& change, const ClaimRow& found) {
  std::visit([&](const auto& action) { resolve(change.seen, found, action); }, change.action);
  audit(change);
}

void OperatorRecords::resolve(const store::ClaimRef& claim, const ClaimRow& found,
                              const protocol::Completed& by) {
  records_.completeLate(found, claim, by);
}

void OperatorRecords::resolve(const store::ClaimRef& claim, const ClaimRow& found,
                              const store::NotRun&) {
  Statement statement = prepare(OperatorSql::ResolveNotRun);
  Query(statement, found.id, found.attempt, Text{store::ResolvedNotRunError},
        records_.now().written)
      .run();
  records_.countSettled(found, claim.identity.operation);
  if (!found.counted) {
    records_.countUse(claim.identity.tenant, 1);
  }
}

void OperatorRecords::resolve(const store::ClaimRef& claim, const ClaimRow& found,
                              const store::Free&) {
  records_.erase(found, claim.identity);
}

void OperatorRecords::resolve(const store::ClaimRef& claim, const ClaimRow& found,
                              const store::Bust&) {
  records_.erase(found, claim.identity);
}

void OperatorRecords::resolve(const store::ClaimRef& claim, const ClaimRow& found,
                              const store::AskAgain& ask) {
  Statement statement = prepare(OperatorSql::AskAgain);
  Query(statement, found.id, found.attempt, records_.in(ask.after),
        static_cast<int64_t>(ask.start_over))
      .run();
  if (ask.start_over && found.dead_letter) {
    records_.countUnsettled(claim.identity.operation, {.records = 0, .dead_letters = -1});
  }
}

void OperatorRecords::resolve(const store::ClaimRef& claim, const ClaimRow& found,
                              const store::GiveUp&) {
  Statement statement = prepare(OperatorSql::GiveUp);
  Query(statement, found.id, found.attempt).run();
  if (!found.dead_letter) {
    records_.countUnsettled(claim.identity.operation, {.records = 0, .dead_letters = 1});
  }
}

void OperatorRecords::audit(const store::OperatorChange& change) {
  const protocol::Identity& identity = change.seen.identity;
  const std::string_view action = store::name(store::auditAction(change.action));
  Statement statement = prepare(OperatorSql::AuditChange);
  Query(statement, records_.now().written, Text{action}, Text{change.actor}, Blob{identity.tenant},
        Blob{identity.operation}, Blob{identity.key}, change.seen.attempt, Text{change.reason})
      .run();
}

// --- A tenant's records

std::vector<OperatorRecords::TenantsRecord> OperatorRecords::findTenantsRecords(
    const std::string& tenant, uint32_t limit, store::PurgeResult& result) {
  std::vector<TenantsRecord> found;
  Statement statement = prepare(OperatorSql::TenantsRecords);
  Query row(statement, Blob{tenant});
  while (row.next()) {
    const RecordState state = toState(row.integer(1));
    if (state == RecordState::InProgress && row.integer(7) > records_.now().judges) {
      ++result.running;
      continue;
    }
    if (found.size() == limit) {
      result.more = true;
      break;
    }
    result.unsettled += state == RecordState::Unknown ? 1 : 0;
    found.push_back({.row = {.id = row.integer(0),
                             .state = state,
                             .attempt = row.integer(2),
                             .reclaimed = row.integer(3) != 0,
                             .counted = row.isNull(4),
                             .dead_letter = row.integer(5) != 0},
                     .operation = row.bytes(6)});
  }
  result.records = found.size();
  return found;
}

std::vector<OperatorRecords::AuditRow> OperatorRecords::findTenantsAudit(
    const std::string& tenant, uint32_t limit, store::PurgeResult& result) {
  std::vector<AuditRow> found;
  Statement statement = prepare(OperatorSql::TenantsAudit);
  // One more than may be changed tells whether there are more.
  Query row(statement, Blob{tenant}, static_cast<int64_t>(limit) + 1);
  while (row.next()) {
    if (found.size() == limit) {
      result.more = true;
      break;
    }
    found.push_back(
        {.id = row.integer(0),
         .identity = {.tenant = tenant, .operation = row.bytes(1), .key = row.bytes(2)}});
  }
  result.audit_entries = found.size();
  return found;
}

void OperatorRecords::pseudonymise(const std::vector<AuditRow>& rows) {
  Statement statement = prepare(OperatorSql::Pseudonymise);
  for (const AuditRow& row : rows) {
    Query(statement, row.id, Blob{protocol::tenantHash(row.identity.tenant)},
          Blob{protocol::keyHash(row.identity)})
        .run();
  }
}

void OperatorRecords::audit(const store::Purge& purge, uint64_t records) {
  Statement statement = prepare(OperatorSql::AuditPurge);
  Query(statement, records_.now().written, Text{store::name(store::AuditAction::Purge)},
        Text{purge.actor}, Blob{protocol::tenantHash(purge.tenant)}, static_cast<int64_t>(records),
        Text{purge.reason})
      .run();
}

store::PurgeResult OperatorRecords::purge(const store::Purge& purge, uint32_t limit) {
  store::PurgeResult result;
  const std::vector<TenantsRecord> records = findTenantsRecords(purge.tenant, limit, result);
  const std::vector<AuditRow> entries = findTenantsAudit(purge.tenant, limit, result);
  if (purge.dry_run) {
    return result;
  }
  for (const TenantsRecord& record : records) {
    records_.erase(record.row, {.tenant = purge.tenant, .operation = record.operation, .key = {}});
  }
  pseudonymise(entries);
  audit(purge, result.records);
  return result;
}

// --- The reconciler

std::set<std::string> OperatorRecords::dueOperations() {
  return distinctOperations(database_, OperatorSql::NextDueOperation);
}

void OperatorRecords::findDue(const std::string& operation, uint32_t limit, std::vector<Due>& all) {
  Statement statement = prepare(OperatorSql::FindDue);
  const int64_t now = records_.now().judges;
  Query row(statement, Blob{operation}, now, static_cast<int64_t>(limit));
  while (row.next()) {
    store::DueRecord record{
        .claim = {.identity = {.tenant = row.bytes(2), .operation = operation, .key = row.bytes(3)},
                  .attempt = row.integer(4)},
        .tries = static_cast<uint32_t>(row.integer(5)) + 1,
        .claim_age = milliseconds(std::max<int64_t>(now - row.integer(6), 0))};
    all.push_back({.since = row.integer(0), .id = row.integer(1), .record = std::move(record)});
  }
}

std::vector<store::DueRecord> OperatorRecords::takeDue(const store::OperationSet& operations,
                                                       milliseconds hold, uint32_t limit) {
  std::set<std::string> names(operations.names.begin(), operations.names.end());
  if (operations.all_but) {
    std::set<std::string> others = dueOperations();
    std::erase_if(others, [&](const std::string& name) { return names.contains(name); });
    names.swap(others);
  }
  std::vector<Due> all;
  for (const std::string& name : names) {
    findDue(name, limit, all);
  }
  std::ranges::stable_sort(all, {}, &Due::since);
  all.resize(std::min<size_t>(all.size(), limit));
  std::vector<store::DueRecord> taken;
  taken.reserve(all.size());
  Statement count = prepare(OperatorSql::CountTry);
  for (Due& due : all) {
    Query(count, due.id, due.record.claim.attempt, records_.in(hold)).run();
    taken.push_back(std::move(due.record));
  }
  return taken;
}

}  // namespace idempotency::sqlite
