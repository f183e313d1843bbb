#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "source/protocol/record.h"

namespace idempotency {

// A moment by the store's own clock. Only that clock judges leases and expiry; a process never
// compares it with its own.
using StoreTime = std::chrono::sys_time<std::chrono::milliseconds>;

// A record as the store found it. All judgements (alive, past) were made by the store's clock when
// it was read.
struct Record {
  RecordState state = RecordState::Unknown;
  Attempt attempt = 0;
  std::string fingerprint;  // As stored; its first byte is the algorithm's version.
  std::string recovery_point;
  bool lease_alive = false;                 // InProgress: the lease has not run out.
  std::chrono::milliseconds lease_left{0};  // InProgress: 0 when it has.
  bool past_life = false;                   // expires_at is over.
  std::chrono::milliseconds life_left{0};   // Until expires_at; 0 when it is over.
  StoreTime created_at{};
  StoreTime expires_at{};
  std::optional<StoreTime> completed_at;
  std::optional<std::chrono::milliseconds>
      reconcile_after;       // Unknown: until the next try; none: nobody tries.
  bool dead_letter = false;  // Unknown: reconciliation has given up.
  std::string last_error;    // A code, never text from the upstream.

  // Completed.
  int32_t status = 0;
  Tombstone tombstone = Tombstone::None;
  int16_t response_schema = 0;
  std::optional<std::string> response;  // Bytes as given to complete(); none with a tombstone.
};

// Whether a record that is in progress no more is where a write of its own attempt leads to. A
// record that the reaper gave up is not: it holds nothing of what the attempt would write.
inline bool isReached(RecordState wanted, RecordState state, Tombstone tombstone) {
  return state == wanted && tombstone != Tombstone::Abandoned;
}

}  // namespace idempotency
