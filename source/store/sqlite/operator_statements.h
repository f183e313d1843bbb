#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace idempotency::sqlite {

// The statements of operators and the reconciler, besides those that are put together from a
// filter. A test looks at the plan of each.
enum class OperatorSql : uint8_t {
  ResolveNotRun,
  AskAgain,
  GiveUp,
  AuditChange,
  NextDueOperation,
  FindDue,
  CountTry,
  TenantsRecords,
  TenantsAudit,
  Pseudonymise,
  AuditPurge,
  NextUnknownOperation,
  OldestUnknown,
  UnsettledUse,
  NewestStates,
  Leader,
};
inline constexpr size_t OperatorSqlCount = static_cast<size_t>(OperatorSql::Leader) + 1;

// In the order of the enum.
std::array<std::string_view, OperatorSqlCount> operatorStatementTexts();

std::string_view text(OperatorSql sql);

}  // namespace idempotency::sqlite
