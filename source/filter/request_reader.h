#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "source/envoy/stream.h"
#include "source/fingerprint/fingerprint.h"
#include "source/key/key.h"
#include "source/protocol/decide.h"
#include "source/protocol/name_source.h"
#include "source/protocol/policy.h"
#include "source/protocol/record.h"

// What a request says, as values. Worker thread, inside hooks.
namespace idempotency {

struct RequestReading {
  RequestFacts facts;
  std::optional<Key> key;  // There when no fact speaks against it.
  std::string tenant;
  std::string principal;  // Empty where the policy asks for none.
  bool head = false;      // The method is HEAD.
};

// Reads the headers. Nothing but the method is read, and nothing allocated, where the policy does
// not cover the method. `facts.method` is Envoy's: it lives until the hook returns.
RequestReading readRequest(envoy::Stream stream, const Policy& policy,
                           std::span<const NameSource> tenant_sources);

// What must be unique. The operation is the policy's, else the route's name, else the path without
// its query; a name longer than 255 bytes is replaced by its hash.
Identity identityOf(envoy::Stream stream, const Policy& policy, const RequestReading& request);

// None if nothing can be told about the request (OpenSSL fails, or the version is not known).
std::optional<FingerprintResult> fingerprintOf(envoy::Stream stream, const Policy& policy,
                                               const std::string& principal, envoy::Within within,
                                               uint8_t version = FingerprintVersion);

}  // namespace idempotency
