#include "source/store/postgres/postgres_operator_store.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <utility>
#include <variant>

#include "source/protocol/ending.h"
#include "source/protocol/key_hash.h"
#include "source/protocol/overloaded.h"
#include "source/store/audit.h"
#include "source/store/operator_rules.h"
#include "source/store/postgres/operations/rows.h"
#include "source/store/postgres/schema/operator_statements.h"
#include "source/store/postgres/schema/statements.h"
#include "source/store/postgres/wire/parameters.h"
#include "source/store/postgres/wire/wire.h"

namespace idempotency::postgres {
namespace {

using protocol::Identity;
using protocol::RecordState;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Repeat = BlockingSession::Repeat;

// What list() returns after a record's own columns.
constexpr int IdentityColumns = RecordColumn::Ordinal;

// How many identities are fetched at once to look for a key's hash.
constexpr int64_t HashesPerStep = 10'000;

// How much of a table a summary looks at.
constexpr int64_t TidiedRows = 10'000;
constexpr int64_t CountedTenantRows = 10'000;
constexpr int64_t CountedStateRows = 20'000;

// How long the server takes between two looks at a transaction that has not ended.
constexpr char WaitABit[] = "SELECT pg_sleep(0.02)";

Identity readIdentity(const Rows& rows, int row, int column) {
  return {.tenant = std::string(rows.bytes(row, column)),
          .operation = std::string(rows.bytes(row, column + 1)),
          .key = std::string(rows.bytes(row, column + 2))};
}

void bind(const Identity& identity, Parameters& parameters) {
  parameters.bytes(identity.tenant);
  parameters.bytes(identity.operation);
  parameters.bytes(identity.key);
}

Parameters& addForAttempt(Script& script, const char* sql, const store::ClaimRef& claim) {
  Parameters& parameters = script.add(sql);
  bind(claim.identity, parameters);
  parameters.int64(claim.attempt);
  return parameters;
}

// A SELECT whose conditions are put together.
class Query {
public:
  explicit Query(const char* select) : sql_(select) {}

  // `condition` has {} where the parameter's number goes.
  template <typename Value>
  void where(fmt::string_view condition, const Value& value) {
    add(value);
    sql_ += " AND " + fmt::format(fmt::runtime(condition), parameters_.count());
  }
  void where(std::string_view condition) { sql_ += fmt::format(" AND {}", condition); }

  void after(const std::optional<Identity>& identity) {
    if (identity.has_value()) {
      const int first = parameters_.count() + 1;
      bind(*identity, parameters_);
      sql_ += fmt::format(" AND (r.tenant, r.operation, r.key) > (${}, ${}, ${})", first, first + 1,
                          first + 2);
    }
  }
  void order(std::string_view columns, int64_t limit) {
    add(limit);
    sql_ += fmt::format(" ORDER BY {} LIMIT ${}::int8", columns, parameters_.count());
  }

  Script script() && {
    Script script;
    script.add(std::move(sql_)) = std::move(parameters_);
    return script;
  }

private:
  void add(int64_t value) { parameters_.int64(value); }
  void add(const std::string& value) { parameters_.bytes(value); }
  void add(const std::vector<RecordState>& states) {
    Arrays array;
    for (const RecordState state : states) {
      array.int16(0, static_cast<int16_t>(state));
    }
    array.moveAll(parameters_);
  }

  std::string sql_;
  Parameters parameters_;
};

void addConditions(const store::RecordFilter& filter, Query& query) {
  if (!filter.states.empty()) {
    query.where("r.state = ANY (${}::int2[])", filter.states);
  }
  if (filter.tenant.has_value()) {
    query.where("r.tenant = ${}::bytea", *filter.tenant);
  }
  if (filter.operation.has_value()) {
    query.where("r.operation = ${}::bytea", *filter.operation);
  }
  if (filter.key.has_value()) {
    query.where("r.key = ${}::bytea", *filter.key);
  }
  if (filter.attempt.has_value()) {
    query.where("r.attempt = ${}::int8", *filter.attempt);
  }
  if (filter.error.has_value()) {
    query.where("r.last_error = ${}::text", *filter.error);
  }
  if (filter.min_age.has_value()) {
    query.where("r.claimed_at <= now() - ${}::int8 * interval '1 ms'",
                int64_t{filter.min_age->count()});
  }
  if (filter.dead_letters_only) {
    query.where("r.dead_letter AND r.state = 4");
  }
}

// Then unsettled has all of them.
bool wantsUnknownOnly(const store::RecordFilter& filter) {
  return filter.dead_letters_only || filter.states == std::vector{RecordState::Unknown};
}

bool mayBeUnknown(const store::RecordFilter& filter) {
  return filter.states.empty() ||
         std::ranges::find(filter.states, RecordState::Unknown) != filter.states.end();
}

// What the action does to the record, before its row in unsettled.
void addAction(Script& script, const store::OperatorAction& action, const store::ClaimRef& claim,
               int64_t expires_at) {
  std::visit(protocol::Overloaded{
                 [&](const protocol::Completed& completed) {
                   Parameters& parameters = addForAttempt(script, ResolveCompleted, claim);
                   parameters.int16(static_cast<int16_t>(completed.status));
                   parameters.int16(static_cast<int16_t>(completed.tombstone));
                   parameters.int16(completed.response_schema);
                   parameters.int64(completed.ttl.has_value()
                                        ? std::optional<int64_t>(completed.ttl->count())
                                        : std::nullopt);
                   if (completed.tombstone == protocol::Tombstone::None) {
                     addForAttempt(script, InsertResponse, claim).bytes(completed.response);
                   }
                 },
                 [&](const store::NotRun&) {
                   addForAttempt(script, ResolveNotRun, claim).bytes(store::ResolvedNotRunError);
                 },
                 [&](const store::Free&) { addForAttempt(script, DeleteRecord, claim); },
                 [&](const store::Bust&) {
                   addForAttempt(script, DeleteRecord, claim);
                   Parameters& parameters = script.add(DeleteResponse);
                   parameters.int64(claim.attempt);
                   parameters.int64(expires_at);
                 },
                 [&](const store::AskAgain& ask) {
                   Parameters& parameters = addForAttempt(script, AskAgain, claim);
                   parameters.int64(int64_t{ask.after.count()});
                   parameters.boolean(ask.start_over);
                 },
                 [&](const store::GiveUp&) { addForAttempt(script, GiveUp, claim); },
             },
             action);
}

bool staysUnknown(const store::OperatorAction& action) {
  return std::holds_alternative<store::AskAgain>(action) ||
         std::holds_alternative<store::GiveUp>(action);
}

milliseconds readAge(const Rows& rows, int row, int column) {
  return milliseconds(std::max<int64_t>(rows.int64(row, column), 0));
}

std::vector<store::UnsettledUse> readUses(const Rows& rows) {
  std::vector<store::UnsettledUse> uses;
  for (int row = 0; row < rows.count(); ++row) {
    uses.push_back({.operation = std::string(rows.bytes(row, 0)),
                    .records = static_cast<uint64_t>(rows.int64(row, 1)),
                    .dead_letters = static_cast<uint64_t>(rows.int64(row, 2)),
                    .oldest = readAge(rows, row, 3)});
  }
  return uses;
}

void readTenants(const Rows& rows, store::Summary& summary) {
  for (int row = 0; row < rows.count(); ++row) {
    summary.tenants.push_back({.tenant = std::string(rows.bytes(row, 0)),
                               .records = static_cast<uint64_t>(rows.int64(row, 1)),
                               .oldest = readAge(rows, row, 2)});
    summary.tenants_complete = rows.int64(row, 3) < CountedTenantRows;
  }
  if (summary.tenants.size() > store::MaxSummaryRows) {
    summary.tenants.resize(store::MaxSummaryRows);
    summary.tenants_complete = false;
  }
}

void readStates(const Rows& rows, store::Summary& summary) {
  int64_t counted = 0;
  for (int row = 0; row < rows.count(); ++row) {
    summary.states[static_cast<RecordState>(rows.int16(row, 0))] =
        static_cast<uint64_t>(rows.int64(row, 1));
    counted += rows.int64(row, 1);
  }
  summary.states_complete = counted < CountedStateRows;
}

absl::Status mayHaveBeenMade(std::string_view what, const absl::Status& error) {
  return {error.code(), fmt::format("{}: {}", std::string(error.message()), what)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresOperatorStore>> PostgresOperatorStore::open(
    const OperatorOptions& options) {
  auto opened = std::unique_ptr<PostgresOperatorStore>(new PostgresOperatorStore(options));
  if (auto connected = opened->session_.run(Script(), Repeat::Always); !connected.ok()) {
    return connected.status();
  }
  return opened;
}

// --- Looking

absl::StatusOr<store::RecordPage> PostgresOperatorStore::list(const store::RecordFilter& filter,
                                                              const std::optional<Identity>& after,
                                                              uint32_t limit) {
  if (filter.key_hash.has_value()) {
    return listByHash(filter, after);
  }
  if (wantsUnknownOnly(filter)) {
    return listFrom(true, filter, after, limit);
  }
  if (filter.attempt.has_value() && mayBeUnknown(filter)) {
    // There is an index for this one.
    auto page = listFrom(true, filter, after, limit);
    if (!page.ok() || !page->records.empty()) {
      return page;
    }
  }
  return listFrom(false, filter, after, limit);
}

absl::StatusOr<store::RecordPage> PostgresOperatorStore::listFrom(
    bool unsettled, const store::RecordFilter& filter, const std::optional<Identity>& after,
    uint32_t limit) {
  Query query(unsettled ? SelectUnsettled : SelectRecords);
  addConditions(filter, query);
  if (unsettled && filter.attempt.has_value()) {
    query.where("u.attempt = ${}::int8", *filter.attempt);
  }
  query.after(after);
  query.order("r.tenant, r.operation, r.key", int64_t{limit} + 1);
  const auto results = session_.run(std::move(query).script(), Repeat::Always);
  if (!results.ok()) {
    return results.status();
  }
  const Rows rows(results->front().get());
  store::RecordPage page;
  page.more = rows.count() > static_cast<int64_t>(limit);
  const int count = page.more ? static_cast<int>(limit) : rows.count();
  for (int row = 0; row < count; ++row) {
    page.records.push_back(
        {.identity = readIdentity(rows, row, IdentityColumns), .record = readRecord(rows, row)});
  }
  return page;
}

// One identity has the hash: the first that is found ends the search.
absl::StatusOr<store::RecordPage> PostgresOperatorStore::listByHash(
    const store::RecordFilter& filter, const std::optional<Identity>& after) {
  auto found = mayBeUnknown(filter) ? findByHash(true, filter, after) : std::nullopt;
  if (found.ok() && !found->has_value() && !wantsUnknownOnly(filter)) {
    found = findByHash(false, filter, after);
  }
  if (!found.ok()) {
    return found.status();
  }
  if (!found->has_value()) {
    return store::RecordPage{};
  }
  store::RecordFilter exact = filter;
  exact.key_hash.reset();
  exact.tenant = (*found)->tenant;
  exact.operation = (*found)->operation;
  exact.key = (*found)->key;
  return listFrom(false, exact, after, 1);
}

absl::StatusOr<std::optional<Identity>> PostgresOperatorStore::findByHash(
    bool unsettled, const store::RecordFilter& filter, const std::optional<Identity>& after) {
  const auto end = steady_clock::now() + options_.timeout;
  std::optional<Identity> last = after;
  for (;;) {
    Query query(unsettled ? SelectUnsettledIdentities : SelectIdentities);
    addConditions(filter, query);
    query.after(last);
    query.order("r.tenant, r.operation, r.key", HashesPerStep);
    const auto results = session_.run(std::move(query).script(), Repeat::Always);
    if (!results.ok()) {
      return results.status();
    }
    const Rows rows(results->front().get());
    for (int row = 0; row < rows.count(); ++row) {
      last = readIdentity(rows, row, 0);
      if (protocol::keyHash(*last) == *filter.key_hash) {
        return last;
      }
    }
    if (rows.count() < HashesPerStep) {
      return std::optional<Identity>();
    }
    if (steady_clock::now() > end) {
      return absl::DeadlineExceededError(
          "looking for a key by its hash took too long: name the tenant and the operation, too");
    }
  }
}

absl::StatusOr<std::optional<PostgresOperatorStore::Found>> PostgresOperatorStore::read(
    const Identity& identity) {
  Script script;
  bind(identity, script.add(FindRecord));
  const auto results = session_.run(script, Repeat::Always);
  if (!results.ok()) {
    return results.status();
  }
  const Rows rows(results->front().get());
  if (rows.empty()) {
    return std::optional<Found>();
  }
  return Found{readRecord(rows, 0), rows.int64(0, RecordColumn::ExpiresAt)};
}

absl::StatusOr<std::optional<store::ListedRecord>> PostgresOperatorStore::find(
    const Identity& identity) {
  auto found = read(identity);
  if (!found.ok()) {
    return found.status();
  }
  if (!found->has_value()) {
    return std::optional<store::ListedRecord>();
  }
  store::Record record = std::move((*found)->record);
  if (record.state == RecordState::Completed && record.tombstone == protocol::Tombstone::None) {
    // In the meantime the record may go: its response is then missing.
    Script script;
    Parameters& parameters = script.add(FindResponse);
    parameters.int64(record.attempt);
    parameters.int64((*found)->expires_at);
    const auto results = session_.run(script, Repeat::Always);
    if (!results.ok()) {
      return results.status();
    }
    if (const Rows rows(results->front().get()); !rows.empty()) {
      record.response = rows.bytes(0, 0);
    }
  }
  return store::ListedRecord{.identity = identity, .record = std::move(record)};
}

absl::StatusOr<store::AuditPage> PostgresOperatorStore::audit(const store::AuditFilter& filter,
                                                              std::optional<int64_t> before,
                                                              uint32_t limit) {
  Query query(SelectAudit);
  if (filter.tenant.has_value()) {
    query.where("tenant = ${}::bytea", *filter.tenant);
  }
  if (filter.operation.has_value()) {
    query.where("operation = ${}::bytea", *filter.operation);
  }
  if (filter.key.has_value()) {
    // As the index says it.
    query.where("key IS NOT NULL");
    query.where("key = ${}::bytea", *filter.key);
  }
  if (filter.attempt.has_value()) {
    query.where("attempt = ${}::int8", *filter.attempt);
  }
  if (before.has_value()) {
    query.where("id < ${}::int8", *before);
  }
  query.order("id DESC", int64_t{limit} + 1);
  const auto results = session_.run(std::move(query).script(), Repeat::Always);
  if (!results.ok()) {
    return results.status();
  }
  const Rows rows(results->front().get());
  store::AuditPage page;
  page.more = rows.count() > static_cast<int64_t>(limit);
  const int count = page.more ? static_cast<int>(limit) : rows.count();
  for (int row = 0; row < count; ++row) {
    store::AuditEntry& entry = page.entries.emplace_back();
    entry.id = rows.int64(row, 0);
    entry.at = toStoreTime(rows.int64(row, 1));
    entry.actor = rows.bytes(row, 2);
    entry.action = rows.bytes(row, 3);
    if (!rows.isNull(row, 6)) {
      entry.identity = readIdentity(rows, row, 4);
    }
    if (!rows.isNull(row, 7)) {
      entry.attempt = rows.int64(row, 7);
    }
    entry.records = static_cast<uint64_t>(rows.int64(row, 8));
    entry.detail = rows.bytes(row, 9);
  }
  return page;
}

// --- Changing

absl::StatusOr<PostgresOperatorStore::Locked> PostgresOperatorStore::lock(
    const Identity& identity) {
  Script script;
  script.add(BeginChange);
  bind(identity, script.add(LockRecord));
  script.add(TransactionNumber);
  const auto results = session_.begin(script);
  if (!results.ok()) {
    session_.rollBack();
    return results.status();
  }
  Locked locked{.found = {},
                .transaction = std::string(Rows((*results)[2].get()).bytes(0, 0)),
                .server = session_.server()};
  if (const Rows rows((*results)[1].get()); !rows.empty()) {
    locked.found = Found{readRecord(rows, 0), rows.int64(0, RecordColumn::ExpiresAt)};
  }
  return locked;
}

absl::StatusOr<store::ChangeResult> PostgresOperatorStore::change(
    const store::OperatorChange& change) {
  Locked locked;
  if (change.dry_run) {
    auto found = read(change.seen.identity);
    if (!found.ok()) {
      return found.status();
    }
    locked.found = *std::move(found);
  } else {
    auto held = lock(change.seen.identity);
    if (!held.ok()) {
      return held.status();
    }
    locked = *std::move(held);
  }
  store::ChangeResult result;
  if (locked.found.has_value()) {
    result.found = locked.found->record;
  }
  result.outcome = store::judgeChange(change.action, change.seen.attempt, result.found);
  if (change.dry_run) {
    return result;
  }
  if (result.outcome != store::ChangeOutcome::Done) {
    session_.rollBack();
    return result;
  }
  if (absl::Status written = write(change, locked); !written.ok()) {
    return written;
  }
  return result;
}

absl::Status PostgresOperatorStore::write(const store::OperatorChange& change,
                                          const Locked& locked) {
  Script script;
  addAction(script, change.action, change.seen, locked.found->expires_at);
  if (staysUnknown(change.action)) {
    addForAttempt(script, CopyToUnsettled, change.seen);
  } else {
    bind(change.seen.identity, script.add(DeleteUnsettled));
  }
  Parameters& entry = addForAttempt(script, InsertAudit, change.seen);
  entry.bytes(change.actor);
  entry.bytes(store::name(store::auditAction(change.action)));
  entry.bytes(change.reason);
  script.add(CommitChange);
  const auto results = session_.run(script, Repeat::Never);
  if (results.ok()) {
    return absl::OkStatus();
  }
  if (!session_.isInDoubt()) {
    session_.rollBack();
    return results.status();
  }
  if (absl::IsUnavailable(results.status())) {
    return findOutWhetherCommitted(locked, results.status());
  }
  return mayHaveBeenMade("the change may have been made", results.status());
}

absl::Status PostgresOperatorStore::findOutWhetherCommitted(const Locked& locked,
                                                            const absl::Status& lost) {
  const auto end = steady_clock::now() + options_.timeout;
  while (steady_clock::now() < end) {
    Script script;
    script.add(TransactionStatus).bytes(locked.transaction);
    const auto results = session_.run(script, Repeat::Always);
    // Another server's transactions have numbers of their own.
    if (!results.ok() || session_.server() != locked.server) {
      break;
    }
    const std::string_view status = Rows(results->front().get()).bytes(0, 0);
    if (status == "committed") {
      return absl::OkStatus();
    }
    if (status == "aborted") {
      return mayHaveBeenMade("nothing was changed, try again", lost);
    }
    if (status != "in progress") {
      break;
    }
    Script wait;
    wait.add(WaitABit);
    if (!session_.run(wait, Repeat::Always).ok()) {
      break;
    }
  }
  return mayHaveBeenMade("the change may have been made, look at the record", lost);
}

absl::StatusOr<store::PurgeResult> PostgresOperatorStore::purge(const store::Purge& purge,
                                                                uint32_t limit) {
  Script script;
  Parameters& parameters = script.add(PurgeTenant);
  parameters.bytes(purge.tenant);
  parameters.bytes(purge.actor);
  parameters.bytes(purge.reason);
  parameters.boolean(purge.dry_run);
  parameters.int64(int64_t{limit});
  const auto results = session_.run(script, purge.dry_run ? Repeat::Always : Repeat::Unsent);
  if (!results.ok()) {
    return session_.isInDoubt()
               ? mayHaveBeenMade("records may have been deleted, try again", results.status())
               : results.status();
  }
  const Rows rows(results->front().get());
  store::PurgeResult result;
  result.records = static_cast<uint64_t>(rows.int64(0, 0));
  result.unsettled = static_cast<uint64_t>(rows.int64(0, 1));
  result.running = static_cast<uint64_t>(rows.int64(0, 2));
  result.audit_entries = static_cast<uint64_t>(rows.int64(0, 3));
  result.more = rows.boolean(0, 4);
  return result;
}

// --- Counting, asking

absl::Status PostgresOperatorStore::tidy() {
  Script script;
  script.add(TidyUnsettled).int64(TidiedRows);
  return session_.run(script, Repeat::Always).status();
}

absl::StatusOr<std::vector<store::UnsettledUse>> PostgresOperatorStore::unsettled() {
  if (absl::Status tidied = tidy(); !tidied.ok()) {
    return tidied;
  }
  Script script;
  script.add(CountUnsettled).int64(int64_t{store::MaxSummaryRows});
  const auto results = session_.run(script, Repeat::Always);
  if (!results.ok()) {
    return results.status();
  }
  return readUses(Rows((*results)[0].get()));
}

absl::StatusOr<store::Summary> PostgresOperatorStore::summary() {
  if (absl::Status tidied = tidy(); !tidied.ok()) {
    return tidied;
  }
  Script script;
  script.add(CountUnsettled).int64(int64_t{store::MaxSummaryRows});
  Parameters& tenants = script.add(CountTenants);
  tenants.int64(CountedTenantRows);
  tenants.int64(int64_t{store::MaxSummaryRows} + 1);
  script.add(CountStates).int64(CountedStateRows);
  script.add(SelectLeader);
  script.add(SelectVersion);
  const auto results = session_.run(script, Repeat::Always);
  if (!results.ok()) {
    return results.status();
  }
  store::Summary summary;
  summary.unsettled = readUses(Rows((*results)[0].get()));
  readTenants(Rows((*results)[1].get()), summary);
  readStates(Rows((*results)[2].get()), summary);
  if (const Rows leader((*results)[3].get()); !leader.empty()) {
    summary.leader = leader.bytes(0, 0);
  }
  const Rows version((*results)[4].get());
  summary.schema_version = static_cast<int>(version.int64(0, 0));
  summary.now = toStoreTime(version.int64(0, 1));
  return summary;
}

absl::StatusOr<std::vector<store::DueRecord>> PostgresOperatorStore::takeDue(
    const store::OperationSet& operations, milliseconds hold, uint32_t limit) {
  Arrays names;
  names.bytesColumn(0);
  for (const std::string& name : operations.names) {
    names.bytes(0, name);
  }
  Script script;
  Parameters& parameters = script.add(TakeDue);
  names.moveAll(parameters);
  parameters.boolean(operations.all_but);
  parameters.int64(int64_t{hold.count()});
  parameters.int64(int64_t{limit});
  const auto results = session_.run(script, Repeat::Unsent);
  if (!results.ok()) {
    return session_.isInDoubt() ? mayHaveBeenMade("tries may have been counted", results.status())
                                : results.status();
  }
  const Rows rows(results->front().get());
  std::vector<store::DueRecord> due;
  for (int row = 0; row < rows.count(); ++row) {
    due.push_back({.claim = {readIdentity(rows, row, 0), rows.int64(row, 3)},
                   .tries = static_cast<uint32_t>(rows.int64(row, 4)),
                   .claim_age = readAge(rows, row, 5)});
  }
  return due;
}

}  // namespace idempotency::postgres
