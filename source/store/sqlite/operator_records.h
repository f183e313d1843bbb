#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "source/store/operator_store.h"
#include "source/store/sqlite/database.h"
#include "source/store/sqlite/operator_statements.h"
#include "source/store/sqlite/record_row.h"
#include "source/store/sqlite/records.h"

namespace idempotency::sqlite {

// What operators and the reconciler change in the tables, within the transactions of Records, which
// outlives this. Prepares each statement when it is used: an operator calls rarely, and a store
// that serves requests never.
class OperatorRecords {
public:
  OperatorRecords(Database& database, Records& records) : database_(database), records_(records) {}

  // As the methods of OperatorStore. A dry run needs no write transaction.
  store::ChangeResult change(const store::OperatorChange& change);
  store::PurgeResult purge(const store::Purge& purge, uint32_t limit);
  std::vector<store::DueRecord> takeDue(const store::OperationSet& operations,
                                        std::chrono::milliseconds hold, uint32_t limit);

private:
  struct Due {
    int64_t since = 0;
    int64_t id = 0;
    store::DueRecord record;
  };
  struct TenantsRecord {
    ClaimRow row;
    std::string operation;
  };
  struct AuditRow {
    int64_t id = 0;
    protocol::Identity identity;
  };

  Statement prepare(OperatorSql sql) { return {database_, text(sql)}; }

  void apply(const store::OperatorChange& change, const ClaimRow& found);
  void resolve(const store::ClaimRef& claim, const ClaimRow& found, const store::NotRun&);
  void resolve(const store::ClaimRef& claim, const ClaimRow& found, const protocol::Completed& by);
  void resolve(const store::ClaimRef& claim, const ClaimRow& found, const store::Free&);
  void resolve(const store::ClaimRef& claim, const ClaimRow& found, const store::Bust&);
  void resolve(const store::ClaimRef& claim, const ClaimRow& found, const store::AskAgain& ask);
  void resolve(const store::ClaimRef& claim, const ClaimRow& found, const store::GiveUp&);

  // The tenant's records that no request is running, at most `limit`; counts those left.
  std::vector<TenantsRecord> findTenantsRecords(const std::string& tenant, uint32_t limit,
                                                store::PurgeResult& result);
  std::vector<AuditRow> findTenantsAudit(const std::string& tenant, uint32_t limit,
                                         store::PurgeResult& result);
  void pseudonymise(const std::vector<AuditRow>& rows);

  std::set<std::string> dueOperations();
  void findDue(const std::string& operation, uint32_t limit, std::vector<Due>& all);

  void audit(const store::OperatorChange& change);
  void audit(const store::Purge& purge, uint64_t records);

  Database& database_;
  Records& records_;
};

// The operations of unknown records; `next` finds the first one from a name on.
std::set<std::string> distinctOperations(Database& database, OperatorSql next);

}  // namespace idempotency::sqlite
