#pragma once

#include <optional>
#include <string>

#include "source/envoy/stream.h"
#include "source/protocol/classify.h"
#include "source/protocol/policy.h"
#include "source/protocol/record.h"
#include "source/protocol/store_action.h"

// What a response says, as values. Worker thread, inside hooks.
namespace idempotency {

// The upstream's status; 0 if there is none.
int statusOf(envoy::Stream stream);

// Whether Envoy says that this response comes from the upstream. True only in the hook of the
// response's headers; later events overwrite it.
bool isFromUpstream(envoy::Stream stream);

// Whether the response is known from its headers to be too long to be held, or never to end.
bool isKnownTooLarge(envoy::Stream stream, const Policy& policy);
bool isEndless(envoy::Stream stream);

// What Envoy knows of the upstream call now.
StreamFacts streamFacts(envoy::Stream stream, bool via_upstream, bool complete);

// Headers and trailers as they are stored; none if they must not be replayed.
struct ResponseFields {
  FieldList headers;
  FieldList trailers;
};
std::optional<ResponseFields> fieldsOf(envoy::Stream stream, const Policy& policy);

// All but body_bytes and storable.
ResponseFacts responseFacts(envoy::Stream stream);

// The body's bytes in one piece.
std::string bodyOf(envoy::Stream stream, envoy::Within within);

}  // namespace idempotency
