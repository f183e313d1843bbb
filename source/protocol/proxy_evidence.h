#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency::protocol {

// What a response shows about proxies between our Envoy and the service. A proxy that gets no
// response, or gets it too late, generates one in place of the service: a complete response with an
// ordinary status, which does not show whether the service ran the request.
enum class ProxyEvidence : uint8_t {
  InDoubt,  // A proxy made it; the service may have run. First, so that zero refuses.
  NotSent,  // A proxy made it, and the request did not reach the service.
  Retried,  // The service made it, and a proxy had sent the request to it before.
  None,     // Nothing speaks against the service.
};

// How much of a body is examined.
constexpr size_t EnoughText = 1024;

// A response, as a proxy behind the filter could have generated it.
struct ResponseText {
  int status = 0;                           // As the policy's lists see it.
  std::span<const FieldView> headers = {};  // Names in lower case.
  std::span<const FieldView> trailers = {};
  // The beginning of the body (EnoughText bytes), or the grpc-message.
  std::string_view text = {};
};

// Whether a proxy may have generated a response with this status because it had no other.
constexpr bool isError(int status) {
  return status >= 400;
}

// Judges responses with a status of 400 and above; for any other it is None.
//
// "Not sent" requires evidence that holds although the proxy may have retried on its own. Envoy
// retries if its config says so. Its Proxy-Status then describes only the last attempt, even on a
// response from the service itself, and so does its text "no healthy upstream".
//
// Not recognized: a proxy that sends a request again and passes on the last response, and error
// pages that are not on the lists.
[[nodiscard]] ProxyEvidence proxyEvidence(const ResponseText& response);

// What an error type of RFC 9209 §2.3 means: NotSent, or InDoubt, also for an unknown type.
[[nodiscard]] ProxyEvidence proxyErrorEvidence(std::string_view error_type);

}  // namespace idempotency::protocol
