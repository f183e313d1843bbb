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
  ClaimInQuota,  // The same, if the tenant has room.
  Reclaim,       // Compare-and-set on a record that was found.
  CountTenant,   // Whether the tenant has no room.
  Complete,      // With its response, or neither.
  CompleteMany,  // The same for several.
  CompleteBare,  // Without a response.
  Fail,
  Release,
  MarkUnknown,
  Extend,  // Many claims.
  ReadKey,
  ReadKeyMany,
  ReadResponses,  // One or several.
  Lead,
  AllowTime,  // How long the rest of this transaction may take.
  Sweep,
  MakePartitions,
  DropPartitions,
  Reap,
};
inline constexpr size_t StatementCount = 21;

struct Statement {
  const char* name;
  const char* sql;
};

[[nodiscard]] const Statement& statement(StatementId id);

// The order of columns in what ReadKey returns; ReadKeyMany adds which of them it is, from 1.
struct KeyColumn {
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
    Now,
    Ordinal,
  };
};

}  // namespace idempotency::postgres
