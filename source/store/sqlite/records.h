#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "source/store/audit.h"
#include "source/store/maintenance_store.h"
#include "source/store/record.h"
#include "source/store/sqlite/database.h"
#include "source/store/sqlite/recent_rows.h"
#include "source/store/sqlite/requests.h"
#include "source/store/sqlite/statements.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// What the operations do to the tables. Same thread as the database, which outlives this.
//
//   begin(…); for each operation openOperation(), run(…), closeOperation(); flush(); commit().
//
// A result counts only if the database has no error after closeOperation(), and only after a
// commit() that succeeded. Time stands still during a transaction.
class Records {
public:
  // Prepares all statements: the database's error tells whether the tables are there.
  explicit Records(Database& database);

  // A write transaction holds the lock of the file from the start, so that what it reads stays
  // true.
  bool begin(bool writes);
  // Writes what was gathered for the end of the transaction.
  bool flush();
  bool commit();

  void openOperation();
  void closeOperation();
  // Around an operation that is to be taken back by itself if it fails.
  void setSavepoint();
  // Takes back what was done since if the database has an error; the error stays.
  void dropSavepoint();

  ClaimResult run(const ClaimRequest& request);
  WriteResult run(const CompleteRequest& request);
  WriteResult run(const FailRequest& request);
  WriteResult run(const ReleaseRequest& request);
  WriteResult run(const UnknownRequest& request);
  ExtendResult run(const ExtendRequest& request);
  LookUpResult run(const LookUpRequest& request);
  Leadership run(const LeadRequest& request);
  MaintenanceResult run(const SweepRequest& request);
  MaintenanceResult run(const ReapRequest& request);

private:
  struct Found {
    int64_t id = 0;
    bool reclaimed = false;
    int64_t lease_until = 0;
    Record record;
  };
  struct Claim {
    int64_t id = 0;
    RecordState state = RecordState::Unknown;
    Attempt attempt = 0;
    bool reclaimed = false;
    Tombstone tombstone = Tombstone::None;
  };
  // A row for the background jobs.
  struct Due {
    int64_t id = 0;
    Identity identity;
    Attempt attempt = 0;
    int64_t value = 0;  // As the statement says.
  };

  Statement& sql(Sql which) { return statements_[static_cast<size_t>(which)]; }
  int64_t in(std::chrono::milliseconds time) const { return now_ + time.count(); }
  std::optional<int64_t> in(const std::optional<std::chrono::milliseconds>& time) const;

  std::optional<Found> find(const Identity& identity);
  std::optional<Claim> findClaim(const ClaimRef& claim);
  // False: a record is there, or something failed.
  bool insert(const ClaimRequest& request);
  ClaimResult onFound(const ClaimRequest& request, const Found& found);
  Claimed reclaim(const ClaimRequest& request, const Found& found);
  bool isOver(const Record& record) const;
  bool mayReclaim(const Found& found, const ReclaimFrom& from) const;
  // Fenced, or Done because it was done before; none: the write is to be carried out.
  std::optional<WriteOutcome> judge(const std::optional<Claim>& found, const ClaimRef& claim,
                                    RecordState to) const;
  // False: the row is no longer what the attempt claimed.
  bool complete(int64_t id, const CompleteRequest& request);
  WriteResult takeBack(const Claim& found, const Identity& identity);
  bool hasRoom(const ClaimRequest& request);
  std::vector<Due> findDue(Sql which, uint32_t limit);
  // Without a record: one row for all of the step.
  void audit(AuditAction action, const Due* due, uint64_t records);

  Database& database_;
  std::vector<Statement> statements_;
  int64_t now_ = 0;
  RecentRows inserted_;
  // Of this transaction, written at its end: one write for each tenant. The operation's own part
  // joins when it has succeeded.
  std::map<std::string, int64_t> use_;
  std::vector<std::pair<std::string, int64_t>> operation_use_;
};

}  // namespace idempotency::sqlite
