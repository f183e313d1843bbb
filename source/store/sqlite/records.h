#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/protocol/ending.h"
#include "source/store/audit.h"
#include "source/store/maintenance_store.h"
#include "source/store/record.h"
#include "source/store/sqlite/clock_guard.h"
#include "source/store/sqlite/database.h"
#include "source/store/sqlite/recent_rows.h"
#include "source/store/sqlite/record_row.h"
#include "source/store/sqlite/statements.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// What the operations do to the tables. Same thread as the database and the guard of the clock,
// which outlive this.
//
//   begin(…); for each operation openOperation(), claim(…) or another, closeOperation(); flush();
//   commit().
//
// A result counts only if the database has no error after closeOperation(), and only after a
// commit() that succeeded. The time does not change during a transaction.
class Records {
public:
  // Unknown records.
  struct Unsettled {
    int64_t records = 0;
    int64_t dead_letters = 0;  // Of these.
  };

  // Prepares all statements: the database's error shows whether the tables exist.
  Records(Database& database, ClockGuard& guard, Uptime uptime);

  // A write transaction holds the lock of the file from the start, so that what it reads stays
  // true.
  bool begin(bool writes);
  // Writes what was gathered for the end of the transaction.
  bool flush();
  bool commit();

  void openOperation();
  void closeOperation();
  // Around an operation that is rolled back on its own if it fails.
  void setSavepoint();
  // Takes back what was done since if the database has an error; the error stays.
  void dropSavepoint();

  // As the methods of Store and MaintenanceStore.
  store::ClaimResult claim(const store::ClaimRequest& request);
  store::WriteResult settle(const store::ClaimRef& claim, const protocol::Ending& ending);
  store::ExtendResult extend(const std::vector<store::ClaimRef>& claims,
                             std::chrono::milliseconds lease);
  store::LookUpResult lookUp(const protocol::Identity& identity);
  store::Leadership lead(std::string_view owner, std::chrono::milliseconds lease);
  store::MaintenanceResult sweep(uint32_t limit,
                                 std::optional<std::chrono::milliseconds> reconcile_after);
  store::MaintenanceResult reap(uint32_t limit, bool soft);

  // --- What the changes of operators are made of (see OperatorRecords)

  const ClockGuard::Now& now() const { return now_; }
  // When it will be so much later, to be written.
  int64_t in(std::chrono::milliseconds time) const { return now_.written + time.count(); }
  std::optional<RecordRow> find(const protocol::Identity& identity);
  // Completes a record that has become unknown in the meantime, or that has expired. False: it is
  // no longer as it was found.
  bool completeLate(const ClaimRow& found, const store::ClaimRef& claim,
                    const protocol::Completed& completed);
  // Deletes the record and its response.
  void erase(const ClaimRow& found, const protocol::Identity& identity);
  // Counts a change of the numbers of records that are not expired, and of unknown ones.
  void countUse(const std::string& tenant, int64_t records);
  void countUnsettled(const std::string& operation, const Unsettled& change);
  // An unknown record is settled, or deleted.
  void countSettled(const ClaimRow& found, const std::string& operation);

private:
  // A row for the background jobs.
  struct Due {
    int64_t id = 0;
    protocol::Identity identity;
    protocol::Attempt attempt = 0;
    int64_t value = 0;  // As the statement says.
  };

  Statement& sql(Sql which) { return statements_[static_cast<size_t>(which)]; }
  std::optional<int64_t> in(const std::optional<std::chrono::milliseconds>& time) const;

  std::optional<ClaimRow> findClaim(const store::ClaimRef& claim);
  // False: a record is there, or something failed.
  bool insert(const store::ClaimRequest& request);
  store::ClaimResult onFound(const store::ClaimRequest& request, const RecordRow& found);
  store::Claimed reclaim(const store::ClaimRequest& request, const RecordRow& found);
  // Write an ending to the row that was found for the claim. False: it is no longer as it was
  // found.
  bool write(const ClaimRow& found, const store::ClaimRef& claim,
             const protocol::Completed& completed);
  bool write(const ClaimRow& found, const store::ClaimRef& claim, const protocol::Failed& failed);
  bool write(const ClaimRow& found, const store::ClaimRef& claim,
             const protocol::Released& released);
  bool write(const ClaimRow& found, const store::ClaimRef& claim, const protocol::Unknown& unknown);
  // False: the row is no longer what the attempt claimed, or the record has expired. If two times
  // are possible, the later one decides, so that the record stays either way (see ClockGuard).
  bool complete(int64_t id, const store::ClaimRef& claim, const protocol::Completed& completed);
  void keepResult(int64_t id, protocol::Attempt attempt, const protocol::Completed& completed);
  bool hasRoom(const store::ClaimRequest& request);
  std::vector<Due> findDue(Sql which, uint32_t limit);
  // Without a record: one row for all of the step.
  void audit(store::AuditAction action, const Due* due, uint64_t records);

  // False: something failed.
  bool lookAtClock();

  Database& database_;
  ClockGuard& guard_;
  const Uptime uptime_;
  std::vector<Statement> statements_;
  ClockGuard::Now now_;
  RecentRows inserted_;
  // Of this transaction, written at its end: one write for each tenant and operation. The
  // operation's own part joins when it has succeeded.
  std::map<std::string, int64_t> use_;
  std::map<std::string, Unsettled> unsettled_;
  std::vector<std::pair<std::string, int64_t>> operation_use_;
  std::vector<std::pair<std::string, Unsettled>> operation_unsettled_;
};

}  // namespace idempotency::sqlite
