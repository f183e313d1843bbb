#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "source/protocol/policy.h"
#include "source/protocol/record.h"

namespace idempotency::store {

// A time of the store's own clock. Only that clock decides about leases and expiry; a process never
// compares it with its own clock.
using StoreTime = std::chrono::sys_time<std::chrono::milliseconds>;

// A record as the store found it. lease_alive and past_life were evaluated with the store's clock
// when it was read.
struct Record {
  protocol::RecordState state = protocol::RecordState::Unknown;
  protocol::Attempt attempt = 0;
  std::string fingerprint;  // As stored; its first byte is the algorithm's version.
  std::string recovery_point;
  bool lease_alive = false;                 // InProgress: the lease has not expired.
  std::chrono::milliseconds lease_left{0};  // InProgress: 0 if it has.
  protocol::LeaseExpired on_lease_expired =
      protocol::LeaseExpired::Unknown;     // Of the policy it was claimed under.
  bool past_life = false;                  // expires_at has passed.
  std::chrono::milliseconds life_left{0};  // Until expires_at; 0 if it has passed.
  std::chrono::milliseconds claim_age{0};  // Since the current attempt claimed it.
  StoreTime created_at{};
  StoreTime expires_at{};
  std::optional<StoreTime> completed_at;
  std::optional<std::chrono::milliseconds>
      reconcile_after;       // Unknown: until the next try, negative if overdue; none: no tries.
  bool dead_letter = false;  // Unknown: reconciliation has given up.
  std::string last_error;    // A code, never text from the upstream.

  // Completed.
  int32_t status = 0;
  protocol::Tombstone tombstone = protocol::Tombstone::None;
  int16_t response_schema = 0;
  std::optional<std::string> response;  // Bytes as in Completed; none with a tombstone.
};

}  // namespace idempotency::store
