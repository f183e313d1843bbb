#pragma once

#include <cstdint>
#include <string_view>

namespace idempotency {

// What background jobs write to the audit table. The words are stored: never change them.
enum class AuditAction : uint8_t {
  LeaseToUnknown,  // Sweep: a lease ran out; nobody knows what became of the attempt.
  LeaseToRetry,    // Sweep: a lease ran out; policy lets the next request run.
  GiveUp,          // Reap: still unknown at the end of its life, ended as failed (408).
  Expire,          // Reap: kept as expired, without its response. One row for all of a step.
  Delete,          // Reap: deleted. One row for all of a step.
};

constexpr std::string_view name(AuditAction action) {
  switch (action) {
    case AuditAction::LeaseToUnknown:
      return "lease_to_unknown";
    case AuditAction::LeaseToRetry:
      return "lease_to_retry";
    case AuditAction::GiveUp:
      return "give_up";
    case AuditAction::Expire:
      return "expire";
    case AuditAction::Delete:
      return "delete";
  }
  return "invalid";
}

// Codes in Record::last_error that background jobs write.
inline constexpr std::string_view LeaseExpiredError = "lease_expired";
inline constexpr std::string_view AbandonedError = "abandoned";

// The status of a record that was given up.
inline constexpr int32_t AbandonedStatus = 408;

// Where a record's recovery point begins.
inline constexpr std::string_view FirstRecoveryPoint = "started";

}  // namespace idempotency
