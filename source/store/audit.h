#pragma once

#include <cstdint>
#include <string_view>

namespace idempotency::store {

// What background jobs and operators write to the audit table. The words are stored: never change
// them. Earlier versions also wrote "give_up", when an unknown record expired.
enum class AuditAction : uint8_t {
  LeaseToUnknown,  // Sweep: a lease expired; the outcome of the attempt is unknown.
  LeaseToRetry,    // Sweep: a lease expired; the policy lets the next request run.
  Expire,          // Reap: kept as expired, without its response. One row per step.
  Delete,          // Reap: deleted. One row per step.
  // An operator or the reconciler said what became of an attempt, freed a key, or deleted a result.
  ResolveCompleted,
  ResolveNotRun,
  Release,
  Bust,
  AskAgain,    // The upstream is to be asked (again).
  DeadLetter,  // The reconciler has given up.
  Purge,       // A tenant's records were deleted. One row per step.
};

constexpr std::string_view name(AuditAction action) {
  switch (action) {
    case AuditAction::LeaseToUnknown:
      return "lease_to_unknown";
    case AuditAction::LeaseToRetry:
      return "lease_to_retry";
    case AuditAction::Expire:
      return "expire";
    case AuditAction::Delete:
      return "delete";
    case AuditAction::ResolveCompleted:
      return "resolve_completed";
    case AuditAction::ResolveNotRun:
      return "resolve_not_run";
    case AuditAction::Release:
      return "release";
    case AuditAction::Bust:
      return "bust";
    case AuditAction::AskAgain:
      return "ask_again";
    case AuditAction::DeadLetter:
      return "dead_letter";
    case AuditAction::Purge:
      return "purge";
  }
  return "invalid";
}

// Codes in Record::last_error that background jobs write.
inline constexpr std::string_view LeaseExpiredError = "lease_expired";

// The first recovery point of a record.
inline constexpr std::string_view FirstRecoveryPoint = "started";

}  // namespace idempotency::store
