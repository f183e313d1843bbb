#pragma once

#include <string_view>

#include "source/envoy/stream.h"
#include "source/protocol/record.h"

// What a request leaves behind for access logs (dynamic metadata `envoy-idempotency`) and traces
// (tags of the active span). Worker thread, while the stream lives. The key itself is in neither.
namespace idempotency {

// Who asks for what: key_hash, tenant.
void traceRequest(envoy::Stream stream, const Identity& identity);
void traceAttempt(envoy::Stream stream, Attempt attempt);
// What became of it, in one word: the last one stays.
void traceOutcome(envoy::Stream stream, std::string_view outcome);
void traceReplay(envoy::Stream stream);

}  // namespace idempotency
