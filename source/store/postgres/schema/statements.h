#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace idempotency::postgres {

// Every statement that the store sends once it is connected; each is prepared at connect.
// Statements of the request path are plain SQL that finds its row by the primary key.
enum class StatementId : uint8_t {
  Claim,         // Inserts, or does nothing.
  ClaimMany,     // The same for several, in one statement.
  Reclaim,       // Compare-and-set on a record that was found.
  ReadUse,       // How many records the tenant has, by the number that is kept.
  CountTenant,   // The same, by looking at some of them.
  TrackTenants,  // Keeps the number for tenants that had none.
  ChangeUse,     // Of many tenants.
  Complete,      // With its response, or neither.
  CompleteMany,  // The same for several.
  CompleteBare,  // Without a response.
  Fail,
  Release,
  MarkUnknown,
  Extend,  // Many claims.
  ReadRecord,
  ReadRecordMany,
  ReadResponses,  // One or several.
  Lead,
  AllowTime,  // How long the rest of this transaction may take.
  Sweep,
  MakePartitions,
  DropPartitions,
  Reap,
  RecountTenants,
  TidyUnsettled,
};
inline constexpr size_t StatementCount = 25;

struct Statement {
  const char* name;
  const char* sql;
};

[[nodiscard]] const Statement& statement(StatementId id);

// What Release returns; no row: there was nothing of this attempt to release.
enum class ReleaseRow : int16_t {
  Deleted = 1,
  GivenBack = 2,  // An earlier attempt may have run: may be claimed again.
  Locked = 3,     // It exists, but another transaction has locked it: nothing was changed.
};

// The order of columns in what ReadRecord returns; ReadRecordMany adds which of them it is, from 1.
struct RecordColumn {
  enum : int {
    State,
    Attempt,
    Fingerprint,
    RecoveryPoint,
    LeaseUntil,
    ExpiresAt,
    CreatedAt,
    CompletedAt,
    ReconcileAfter,
    DeadLetter,
    LastError,
    Status,
    Tombstone,
    ResponseSchema,
    OnLeaseExpired,
    ClaimedAt,
    Now,
    Ordinal,
  };
};

}  // namespace idempotency::postgres
