#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "source/envoy/types.h"

namespace idempotency::envoy {

// A request of the filter itself to a cluster.
struct SideRequest {
  std::string_view cluster;
  std::span<const Field> headers;  // :method, :path and host are required.
  std::string_view body;
  std::chrono::milliseconds timeout{0};  // 0: none.
};

// The result of starting one: an id for the hooks that follow, or the reason why there is none.
struct SideRequestStart {
  CalloutStart result = CalloutStart::CannotCreate;
  uint64_t id = 0;
  bool ok() const { return result == CalloutStart::Ok; }
};

// Hooks of side requests, for a Filter (on its worker; all are cancelled silently when the stream
// ends) and for a FilterFactory (main thread). Views are valid until the hook returns.
class SideRequestHooks {
public:
  virtual ~SideRequestHooks() = default;

  // The end of a callout. Headers and body are empty unless the result is Success.
  virtual void onCalloutDone(uint64_t /*id*/, CalloutResult /*result*/,
                             std::span<const Field> /*headers*/,
                             std::span<const raw::Bytes> /*body*/) {}

  // The events of a side stream: headers, data (possibly none, with end), trailers, then exactly
  // one of complete and reset.
  virtual void onSideHeaders(uint64_t /*id*/, std::span<const Field> /*headers*/, bool /*end*/) {}
  virtual void onSideData(uint64_t /*id*/, std::span<const raw::Bytes> /*data*/, bool /*end*/) {}
  virtual void onSideTrailers(uint64_t /*id*/, std::span<const Field> /*trailers*/) {}
  virtual void onSideComplete(uint64_t /*id*/) {}
  // The reason is always LocalReset, whatever the cause. Runs inside resetSideStream(), too.
  virtual void onSideReset(uint64_t /*id*/, SideStreamReset /*reason*/) {}
};

}  // namespace idempotency::envoy
