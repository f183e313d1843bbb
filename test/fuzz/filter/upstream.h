#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "source/protocol/record.h"
#include "test/fuzz/filter/truth.h"

// What the other side of the filter does: upstreams that answer, Envoy and other filters that
// answer in their place, clients that leave. With what Envoy says of it, and with the truth.
namespace idempotency::fuzz {

struct UpstreamField {
  const char* name;
  const char* value;
  bool stored = true;  // Goes into a record.
};

// The headers of an answer.
struct UpstreamHead {
  const char* name;
  int status = 200;
  std::span<const UpstreamField> fields = {};
  uint64_t attempts = 1;    // Envoy's own retries among them.
  const char* grpc = "";    // The grpc-status in the headers.
  bool endless = false;     // Known to be too long before it has begun.
  bool unstorable = false;  // A field must not be replayed.
  bool foreign = false;     // Another filter's answer, not the upstream's.
  Declared declared = Declared::Nothing;
  // A proxy behind Envoy answers in the service's place, with this text. The service may have run
  // the request, or did not get it.
  const char* proxy_text = nullptr;
  bool not_reached = false;
  bool sent_before = false;  // Behind Envoy somebody has sent it before, and shows it.
};
std::span<const UpstreamHead> upstreamHeads();

// Trailers; for gRPC they tell the status.
inline constexpr size_t TrailersCount = 3;
protocol::FieldList upstreamTrailers(size_t which);

// Pieces of bodies. No two are alike, so that an answer can be told from another by its body.
inline constexpr size_t BodyPieceCount = 4;
std::string upstreamPiece(size_t which, uint64_t execution, size_t number);

// Somebody answers in place of the upstream.
struct LocalReply {
  uint32_t code;
  const char* details;
  uint64_t attempts = 1;
  uint64_t flags = 0;         // Envoy's response flags.
  bool never_sent = false;    // The request did not reach the upstream, and Envoy says so.
  bool cut_by_envoy = false;  // The upstream answered, and Envoy threw its body away.
  const char* body = "";
};
std::span<const LocalReply> localReplies();

// How streams end that nobody answered to their end.
std::span<const char* const> departures();

}  // namespace idempotency::fuzz
