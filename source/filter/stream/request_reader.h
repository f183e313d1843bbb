#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "source/envoy/stream.h"
#include "source/fingerprint/fingerprint.h"
#include "source/http/prefer.h"
#include "source/key/key.h"
#include "source/protocol/decide.h"
#include "source/protocol/name_source.h"
#include "source/protocol/policy.h"
#include "source/protocol/record.h"

// The facts of a request, as values. Worker thread, inside hooks.
namespace idempotency::filter {

struct RequestReading {
  protocol::RequestFacts facts;
  std::optional<key::Key> key;  // Set if it is valid.
  std::string tenant;
  std::string principal;          // Empty if the policy does not use it.
  bool head = false;              // The method is HEAD.
  http::Preferences preferences;  // Read if the policy allows asynchronous answers.
  std::optional<std::chrono::milliseconds> async_wait;  // See asyncWait().
};

// Reads the headers. If the policy does not cover the method, reads nothing else and allocates
// nothing. `facts.method` belongs to Envoy: it is valid until the hook returns.
RequestReading readRequest(envoy::Stream stream, const protocol::Policy& policy,
                           std::span<const protocol::NameSource> tenant_sources);

// None if it cannot be determined.
std::optional<std::string> tenantOf(envoy::Stream stream,
                                    std::span<const protocol::NameSource> tenant_sources);

// Whether the request may come from a script of another origin, which can read only exposed
// headers.
bool isCrossOrigin(envoy::Stream stream);

// Removes headers from the client that have the names of the filter's own headers to the upstream:
// the upstream must be able to trust them.
void removeForged(const envoy::Headers& headers);

// The attempt that the filter has added to the headers; 0 if there is none.
protocol::Attempt attemptIn(const envoy::Headers& headers);

// What must be unique. The operation comes from the policy, or else is the route's name, or else
// the path without its query; a name longer than NameLimit is replaced by its hash.
protocol::Identity identityOf(envoy::Stream stream, const protocol::Policy& policy,
                              const RequestReading& request);

// None if it cannot be computed (OpenSSL fails, or the version is unknown).
std::optional<fingerprint::FingerprintResult> fingerprintOf(
    envoy::Stream stream, const protocol::Policy& policy, const std::string& principal,
    uint8_t version = fingerprint::FingerprintVersion);

}  // namespace idempotency::filter
