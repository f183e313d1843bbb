#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "source/store/operator_store.h"
#include "source/store/sqlite/clock_guard.h"
#include "source/store/sqlite/database.h"
#include "source/store/sqlite/operator_statements.h"

namespace idempotency::sqlite {

// What operators look at, within one read transaction that began at that time.
class OperatorViews {
public:
  OperatorViews(Database& database, const ClockGuard::Now& now) : database_(database), now_(now) {}

  // As the methods of OperatorStore.
  store::RecordPage list(const store::RecordFilter& filter,
                         const std::optional<protocol::Identity>& after, uint32_t limit);
  store::AuditPage audit(const store::AuditFilter& filter, std::optional<int64_t> before,
                         uint32_t limit);
  store::Summary summary();
  std::vector<store::UnsettledUse> unsettled();

private:
  using Tenants = std::map<std::string, store::TenantUse>;

  Statement prepare(OperatorSql sql) { return {database_, text(sql)}; }
  std::chrono::milliseconds age(int64_t since) const;

  store::RecordPage scan(const store::RecordFilter& filter,
                         const std::optional<protocol::Identity>& after, uint32_t limit);
  // Reads at most `limit` of the operation's records, the oldest first. False: there are more.
  bool readUnsettled(store::UnsettledUse& use, int64_t limit, Tenants& tenants);
  void summarizeUnsettled(store::Summary& summary);
  void summarizeStates(store::Summary& summary);

  Database& database_;
  const ClockGuard::Now now_;
};

}  // namespace idempotency::sqlite
