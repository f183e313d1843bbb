#pragma once

#include <cstdint>
#include <string_view>

namespace idempotency {

// What is known of the upstream call when a stream is over, or when its response came.
enum class Outcome : uint8_t {
  Unknown,     // It may have run. First, so that a zeroed value promises nothing.
  NeverSent,   // Surely not run: no byte of the request reached an upstream, or it was refused
               // unprocessed.
  Answered,    // The whole response was received.
  CutByEnvoy,  // It ran, its status is known, but Envoy's buffer limit threw the body away.
  Redirected,  // Envoy follows an internal redirect: the request goes on in a new filter.
};

// What the filter saw. Views need to live for the call only.
struct StreamFacts {
  // Our filter let the request go on.
  bool released = false;
  // The details were "via_upstream" when the response headers came. To be remembered then: later
  // events overwrite the details.
  bool via_upstream = false;
  // The response's last byte (or trailers) was seen.
  bool complete = false;
  std::string_view details = {};  // Envoy's response code details, as they are now.
  uint64_t flags = 0;             // Envoy's response flags, one bit each.
  uint64_t attempts = 0;          // Envoy's count of upstream attempts, 0 if none began.
};

// Tells what became of the upstream call. Anything that is not recognised is Unknown.
[[nodiscard]] Outcome classify(const StreamFacts& facts);

}  // namespace idempotency
