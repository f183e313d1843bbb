#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace idempotency::sqlite {

// Every statement of the store. A test looks at the plan of each: none but the background jobs' may
// read more than the rows it is about.
enum class Sql : uint8_t {
  Begin,
  BeginWrite,
  Commit,
  Savepoint,
  Release,
  Now,
  ReadClock,
  KeepClock,
  InsertRecord,
  FindRecord,
  FindClaim,
  Reclaim,
  Complete,
  CompleteLate,
  Renew,
  Fail,
  MarkUnknown,
  Extend,
  DeleteRecord,
  InsertResponse,
  DeleteResponse,
  TenantUse,
  CountPastLife,
  AddTenantUse,
  ForgetTenant,
  AddUnsettledUse,
  Lead,
  FindDeadLeases,
  FindPastLife,
  SetAside,
  Expire,
  Audit,
};
inline constexpr size_t SqlCount = static_cast<size_t>(Sql::Audit) + 1;

// In the order of the enum.
std::array<std::string_view, SqlCount> statementTexts();

}  // namespace idempotency::sqlite
