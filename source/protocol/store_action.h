#pragma once

#include <cstdint>

#include "source/protocol/classify.h"
#include "source/protocol/policy.h"
#include "source/protocol/record.h"

namespace idempotency {

// What is written to the record when an attempt is over.
enum class StoreActionKind : uint8_t {
  MarkUnknown,  // First, so that a zeroed value never frees a key.
  Complete,     // With the response, or with the tombstone that says why there is none.
  Fail,         // The next request may run.
  Release,      // As if the request had never come.
  Leave,        // Nothing: the claim goes on in another filter.
};

struct StoreAction {
  StoreActionKind kind = StoreActionKind::MarkUnknown;
  Tombstone tombstone = Tombstone::None;  // Complete only.
  bool operator==(const StoreAction&) const = default;
};

// What is known of the response, where the outcome says that there was one.
struct ResponseFacts {
  int status = 0;  // HTTP's, as the upstream sent it; stored and replayed.
  int judged_status =
      0;  // What the policy's status lists look at: the same, or what grpc-status stands for.
  uint64_t body_bytes = 0;  // Received in all.
  bool storable = true;     // Its headers and trailers may be replayed (see fieldsToStore).
  uint64_t attempts = 1;    // Envoy's count of upstream attempts.
};

[[nodiscard]] StoreAction storeAction(const Policy& policy, Outcome outcome,
                                      const ResponseFacts& response);

}  // namespace idempotency
