#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency::fuzz {

// What really became of an attempt, whatever the filter makes of it.
enum class Truth : uint8_t {
  NotBegun,  // The request did not go on.
  Running,
  NeverSent,   // It went on, and surely reached nobody.
  Answered,    // A whole answer came, of the service or of a proxy in its place.
  CutByEnvoy,  // It ran, its status is known, its answer is lost.
  CutShort,    // The service declared the outcome; the rest of its answer is lost.
  Lost,        // It may have run.
};

std::string_view name(Truth truth);

// What the service itself says of the outcome.
enum class Declared : uint8_t {
  Nothing,
  NotRun,
  Retryable,
  Completed,
  Unknown,
  Nonsense,  // A word that has no meaning.
};

// A whole answer; with CutByEnvoy and CutShort what is known of it.
struct WholeAnswer {
  int judged_status = 0;  // What the policy's lists look at.
  Declared declared = Declared::Nothing;
  bool by_proxy = false;     // It is not the service's own.
  bool not_reached = false;  // By a proxy: the service never got the request.
  bool sent_before = false;  // To a service that may have run it: by Envoy's router, by a proxy.
  bool silent = false;       // It has no word on how the call ended (gRPC).
  protocol::Tombstone tombstone = protocol::Tombstone::None;  // Why it cannot be replayed.
  protocol::StoredResponse response;                          // As it must be stored.
};

// What a record may say of an attempt. The promise decides: the next request may run only if this
// one surely did nothing, or if the service itself, asked once, said that it may be tried again.
struct Verdicts {
  bool release = false;
  bool failure = false;
  bool unknown = false;
  bool completion = false;

  bool frees() const { return release || failure; }
};
Verdicts verdicts(Truth truth, const std::optional<WholeAnswer>& answer);

}  // namespace idempotency::fuzz
