#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "source/protocol/record.h"

namespace idempotency::protocol {

// How an attempt ends: what is written to its record. Each alternative names no attempt: the claim
// goes with it (see Store::settle).

// The attempt may have run. The key stays taken: neither a retry nor time frees it.
struct Unknown {
  std::string error;  // A code, never text from the upstream.
  // When the upstream is asked for the outcome. None: it is not asked.
  std::optional<std::chrono::milliseconds> reconcile_after;
};

// The attempt ran, and its result is known. Retries get it until the record expires.
struct Completed {
  int32_t status = 0;
  Tombstone tombstone = Tombstone::None;
  int16_t response_schema = 0;
  std::string response;                          // Opaque bytes; empty with a tombstone.
  std::optional<std::chrono::milliseconds> ttl;  // A new ttl from now on; none: the claim's.
};

// The attempt ended without a result, and the policy lets the next request run.
struct Failed {
  std::string error;  // A code, never text from the upstream.
};

// The attempt certainly did not call the upstream: as if the request had never come.
struct Released {};

// Unknown is first, so that a zeroed value frees no key.
using Ending = std::variant<Unknown, Completed, Failed, Released>;

// The size of the stored response; 0 if the ending has none.
[[nodiscard]] size_t responseBytes(const Ending& ending);
// The size of everything that the ending carries: its response or its error.
[[nodiscard]] size_t bytesOf(const Ending& ending);

}  // namespace idempotency::protocol
