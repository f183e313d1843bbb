#include "source/store/sqlite/operator_views.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "source/protocol/key_hash.h"
#include "source/store/sqlite/operator_records.h"
#include "source/store/sqlite/record_row.h"
#include "source/store/sqlite/schema.h"

namespace idempotency::sqlite {
namespace {

using protocol::RecordState;
using std::chrono::milliseconds;

// How many records a summary counts one by one, so that it takes a bounded time.
constexpr int64_t CountedUnsettled = 10'000;
constexpr int64_t CountedStates = 50'000;

// The columns that readRecord() reads, without the response; then the identity.
constexpr std::string_view ListedColumns =
    "SELECT id, state, attempt, reclaimed, fingerprint, recovery_point, lease_until, created_at, "
    "expires_at, completed_at, reconcile_after, dead_letter, last_error, status, tombstone, "
    "response_schema, NULL, coalesce(claimed_at, created_at), expired_at, on_lease_expired, "
    "tenant, operation, key ";
constexpr int ListedIdentity = 20;

// What a row must be, with the values for its parameters, in order.
class Conditions {
public:
  void add(std::string_view condition) {
    sql_ += sql_.empty() ? " WHERE " : " AND ";
    sql_ += condition;
  }
  template <typename Type>
  void add(std::string_view condition, const Type& value) {
    add(condition);
    values_.emplace_back(value);
  }
  void addValue(Value value) { values_.push_back(value); }
  const std::string& sql() const { return sql_; }
  const std::vector<Value>& values() const { return values_; }

private:
  std::string sql_;
  std::vector<Value> values_;
};

bool isOnlyUnknown(const store::RecordFilter& filter) {
  return filter.dead_letters_only ||
         (filter.states.size() == 1 && filter.states.front() == RecordState::Unknown);
}

bool mayBeUnknown(const store::RecordFilter& filter) {
  return filter.states.empty() ||
         std::ranges::find(filter.states, RecordState::Unknown) != filter.states.end();
}

// Named, because without statistics SQLite could choose to sort all records.
std::string_view indexFor(const store::RecordFilter& filter) {
  const bool identified =
      filter.tenant.has_value() && filter.operation.has_value() && filter.key.has_value();
  if (identified || !isOnlyUnknown(filter)) {
    return "sqlite_autoindex_record_1";
  }
  return filter.attempt.has_value() ? "record_unknown_attempt" : "record_unknown";
}

void addStates(const store::RecordFilter& filter, Conditions& conditions) {
  if (isOnlyUnknown(filter)) {
    conditions.add("unknown_since IS NOT NULL");
  }
  if (filter.states.empty()) {
    return;
  }
  std::string numbers;
  for (const RecordState state : filter.states) {
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", static_cast<int>(state));
  }
  conditions.add(fmt::format("state IN ({})", numbers));
}

// The order of identities is that of the unique index: a page begins where it is read from.
void addAfter(const store::RecordFilter& filter, const protocol::Identity& after,
              Conditions& conditions) {
  if (filter.tenant == after.tenant) {
    conditions.add("(operation, key) > (?, ?)", Blob{after.operation});
  } else {
    conditions.add("(tenant, operation, key) > (?, ?, ?)", Blob{after.tenant});
    conditions.addValue(Blob{after.operation});
  }
  conditions.addValue(Blob{after.key});
}

Conditions conditionsOf(const store::RecordFilter& filter,
                        const std::optional<protocol::Identity>& after, int64_t now) {
  Conditions conditions;
  addStates(filter, conditions);
  if (filter.tenant.has_value()) {
    conditions.add("tenant = ?", Blob{*filter.tenant});
  }
  if (filter.operation.has_value()) {
    conditions.add("operation = ?", Blob{*filter.operation});
  }
  if (filter.key.has_value()) {
    conditions.add("key = ?", Blob{*filter.key});
  }
  if (filter.attempt.has_value()) {
    conditions.add("attempt = ?", *filter.attempt);
  }
  if (filter.error.has_value()) {
    conditions.add("last_error = ?", Text{*filter.error});
  }
  if (filter.min_age.has_value()) {
    conditions.add("coalesce(claimed_at, created_at) <= ?", now - filter.min_age->count());
  }
  if (filter.dead_letters_only) {
    conditions.add("dead_letter = 1");
  }
  if (after.has_value()) {
    addAfter(filter, *after, conditions);
  }
  return conditions;
}

protocol::Identity identityAt(const Query& row, int column) {
  return {.tenant = row.bytes(column),
          .operation = row.bytes(column + 1),
          .key = row.bytes(column + 2)};
}

template <typename Row>
void keepFirst(std::vector<Row>& rows) {
  rows.resize(std::min(rows.size(), store::MaxSummaryRows));
}

}  // namespace

milliseconds OperatorViews::age(int64_t since) const {
  return milliseconds(std::max<int64_t>(now_.judges - since, 0));
}

// --- Records

store::RecordPage OperatorViews::list(const store::RecordFilter& filter,
                                      const std::optional<protocol::Identity>& after,
                                      uint32_t limit) {
  if (filter.attempt.has_value() && !isOnlyUnknown(filter) && mayBeUnknown(filter)) {
    // An attempt is of one record. It is mostly looked for because its outcome is unknown, and
    // among those it is found without reading all records.
    store::RecordFilter unknown = filter;
    unknown.states = {RecordState::Unknown};
    store::RecordPage page = scan(unknown, after, limit);
    if (!page.records.empty()) {
      return page;
    }
  }
  return scan(filter, after, limit);
}

store::RecordPage OperatorViews::scan(const store::RecordFilter& filter,
                                      const std::optional<protocol::Identity>& after,
                                      uint32_t limit) {
  const Conditions conditions = conditionsOf(filter, after, now_.judges);
  Statement statement(database_, fmt::format("{}FROM record INDEXED BY {}{} "
                                             "ORDER BY tenant, operation, key",
                                             ListedColumns, indexFor(filter), conditions.sql()));
  store::RecordPage page;
  Query row(statement, conditions.values());
  while (row.next()) {
    protocol::Identity identity = identityAt(row, ListedIdentity);
    if (filter.key_hash.has_value() && protocol::keyHash(identity) != *filter.key_hash) {
      continue;
    }
    if (page.records.size() == limit) {
      page.more = true;
      break;
    }
    page.records.push_back(
        {.identity = std::move(identity), .record = readRecord(row, now_).record});
  }
  return page;
}

// --- The audit

store::AuditPage OperatorViews::audit(const store::AuditFilter& filter,
                                      std::optional<int64_t> before, uint32_t limit) {
  Conditions conditions;
  if (filter.tenant.has_value()) {
    conditions.add("tenant = ?", Blob{*filter.tenant});
  }
  if (filter.operation.has_value()) {
    conditions.add("operation = ?", Blob{*filter.operation});
  }
  if (filter.key.has_value()) {
    conditions.add("key = ?", Blob{*filter.key});
  }
  if (filter.attempt.has_value()) {
    conditions.add("attempt = ?", *filter.attempt);
  }
  if (before.has_value()) {
    conditions.add("id < ?", *before);
  }
  Statement statement(database_,
                      fmt::format("SELECT id, at, actor, action, tenant, operation, key, attempt, "
                                  "records, detail FROM audit{} ORDER BY id DESC",
                                  conditions.sql()));
  store::AuditPage page;
  Query row(statement, conditions.values());
  while (row.next()) {
    if (page.entries.size() == limit) {
      page.more = true;
      break;
    }
    store::AuditEntry entry{.id = row.integer(0),
                            .at = toTime(row.integer(1)),
                            .actor = row.bytes(2),
                            .action = row.bytes(3),
                            .identity = std::nullopt,
                            .attempt = row.optionalInteger(7),
                            .records = static_cast<uint64_t>(row.integer(8)),
                            .detail = row.bytes(9)};
    if (!row.isNull(6)) {
      entry.identity = identityAt(row, 4);
    }
    page.entries.push_back(std::move(entry));
  }
  return page;
}

// --- The summary

bool OperatorViews::readUnsettled(store::UnsettledUse& use, int64_t limit, Tenants& tenants) {
  Statement statement = prepare(OperatorSql::OldestUnknown);
  Query row(statement, Blob{use.operation}, limit + 1);
  for (int64_t read = 0; row.next(); ++read) {
    if (read == limit) {
      return false;
    }
    const milliseconds unknown_for = age(row.integer(1));
    use.oldest = std::max(use.oldest, unknown_for);
    ++use.records;
    use.dead_letters += row.integer(2) == 0 ? 0 : 1;
    store::TenantUse& tenant = tenants[row.bytes(0)];
    tenant.oldest = std::max(tenant.oldest, unknown_for);
    ++tenant.records;
  }
  return true;
}

void OperatorViews::summarizeUnsettled(store::Summary& summary) {
  const std::set<std::string> operations =
      distinctOperations(database_, OperatorSql::NextUnknownOperation);
  const int64_t limit =
      CountedUnsettled / std::max<int64_t>(static_cast<int64_t>(operations.size()), 1) + 1;
  Tenants tenants;
  Statement counts = prepare(OperatorSql::UnsettledUse);
  for (const std::string& operation : operations) {
    store::UnsettledUse use{.operation = operation};
    if (!readUnsettled(use, limit, tenants)) {
      summary.tenants_complete = false;
      Query row(counts, Blob{operation});
      if (row.next()) {
        use.records = std::max(use.records, static_cast<uint64_t>(row.integer(0)));
        use.dead_letters = std::max(use.dead_letters, static_cast<uint64_t>(row.integer(1)));
      }
    }
    summary.states[RecordState::Unknown] += use.records;
    summary.unsettled.push_back(std::move(use));
  }
  std::ranges::stable_sort(summary.unsettled, std::ranges::greater(),
                           &store::UnsettledUse::records);
  keepFirst(summary.unsettled);
  for (auto& [name, use] : tenants) {
    use.tenant = name;
    summary.tenants.push_back(std::move(use));
  }
  std::ranges::stable_sort(summary.tenants, std::ranges::greater(), &store::TenantUse::oldest);
  summary.tenants_complete =
      summary.tenants_complete && summary.tenants.size() <= store::MaxSummaryRows;
  keepFirst(summary.tenants);
}

// The newest records stand for all where there are many; unknown ones are counted anyway.
void OperatorViews::summarizeStates(store::Summary& summary) {
  Statement statement = prepare(OperatorSql::NewestStates);
  Query row(statement, CountedStates);
  int64_t counted = 0;
  while (row.next()) {
    counted += row.integer(1);
    if (const RecordState state = toState(row.integer(0)); state != RecordState::Unknown) {
      summary.states[state] += static_cast<uint64_t>(row.integer(1));
    }
  }
  summary.states_complete = counted < CountedStates;
}

std::vector<store::UnsettledUse> OperatorViews::unsettled() {
  store::Summary summary;
  summarizeUnsettled(summary);
  return std::move(summary.unsettled);
}

store::Summary OperatorViews::summary() {
  store::Summary summary;
  summarizeUnsettled(summary);
  summarizeStates(summary);
  Statement leader = prepare(OperatorSql::Leader);
  if (Query row(leader, now_.judges); row.next()) {
    summary.leader = row.bytes(0);
  }
  summary.schema_version = knownSchemaVersion();
  summary.now = toTime(now_.judges);
  return summary;
}

}  // namespace idempotency::sqlite
