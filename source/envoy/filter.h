#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "source/envoy/config_handle.h"
#include "source/envoy/mailbox.h"
#include "source/envoy/side_requests.h"
#include "source/envoy/stream.h"

// What a module implements. hooks.cc turns Envoy's C hooks into calls of these classes. A hook that
// throws fails its request closed: hooks.cc answers 500 (Envoy cuts the stream instead where an
// answer has begun), counts `hook_exception`, and calls no further hook but onStreamComplete.
// Destructors must not throw.
namespace idempotency::envoy {

// One stream's filter. All hooks on the stream's worker. Made when the stream begins, destroyed on
// the worker when it is over, never inside one of its own hooks: Envoy 1.39 would do that, hooks.cc
// then waits until the hook returns.
class Filter : public SideRequestHooks {
public:
  explicit Filter(Stream stream) : stream_(stream) {}
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  ~Filter() override;

  // `end`: nothing follows. After StopIteration here a later Continue from the body hook releases
  // the request.
  virtual HeadersAction onRequestHeaders(bool /*end*/) { return HeadersAction::Continue; }
  virtual BodyAction onRequestBody(bool /*end*/) { return BodyAction::Continue; }
  virtual TrailersAction onRequestTrailers() { return TrailersAction::Continue; }

  // Also for replies that Envoy or other filters made, after onLocalReply; never for our own.
  virtual HeadersAction onResponseHeaders(bool /*end*/) { return HeadersAction::Continue; }
  virtual BodyAction onResponseBody(bool /*end*/) { return BodyAction::Continue; }
  virtual TrailersAction onResponseTrailers() { return TrailersAction::Continue; }

  // Somebody answers in place of the upstream, we ourselves included. Never send a reply in here.
  virtual LocalReplyAction onLocalReply(uint32_t /*code*/, std::string_view /*details*/,
                                        bool /*reset_imminent*/) {
    return LocalReplyAction::Continue;
  }

  // The end of every stream, before access logs are written. May run inside another hook of the
  // same filter. The place for bookkeeping.
  virtual void onStreamComplete() {}

  // The client reads slower, or fast enough again.
  virtual void onDownstreamAboveHighWatermark() {}
  virtual void onDownstreamBelowLowWatermark() {}

  // Where other threads post tasks for this stream. Call on the worker; the result may be kept on
  // any thread and may outlive the filter, which closes it when destroyed.
  std::shared_ptr<Mailbox> mailbox();

protected:
  Stream stream() const { return stream_; }

private:
  friend class StreamHolder;  // hooks.cc: closes and drains the mailbox.
  void closeMailbox();

  const Stream stream_;
  std::shared_ptr<Mailbox> mailbox_;
};

// One filter config. Made on the main thread; createFilter on any worker, at once from several.
// Destroyed on the main thread at a listener update or at the end, with ECDS on the worker that
// ends the last stream: never block or join in the destructor on a worker. Its ConfigHandle is dead
// afterwards.
class FilterConfig : public SideRequestHooks {
public:
  explicit FilterConfig(ConfigHandle handle) : handle_(handle) {}
  FilterConfig(const FilterConfig&) = delete;
  FilterConfig& operator=(const FilterConfig&) = delete;
  ~FilterConfig() override;

  // Must not return null.
  virtual std::unique_ptr<Filter> createFilter(Stream stream) = 0;

  // Where other threads post tasks for the main thread. First call on the main thread.
  std::shared_ptr<Mailbox> mailbox();

protected:
  ConfigHandle handle() const { return handle_; }

private:
  friend class ConfigHolder;  // hooks.cc: drains the mailbox.

  const ConfigHandle handle_;
  std::shared_ptr<Mailbox> mailbox_;
};

// One route's config. Made on the main thread, destroyed on any Envoy thread; read by all workers,
// so immutable but for what guards itself.
class RouteConfig {
public:
  virtual ~RouteConfig() = default;
};

// The config of the stream's route; null when the route has none. Alive until the hook returns or
// clearRouteCache().
const RouteConfig* routeConfig(Stream stream);

// Supplied by the module at link time. Null rejects the config: log the reason first. `json` lives
// for the call only.
std::unique_ptr<FilterConfig> createFilterConfig(ConfigHandle handle, std::string_view name,
                                                 std::string_view json);
std::unique_ptr<RouteConfig> createRouteConfig(std::string_view name, std::string_view json);

}  // namespace idempotency::envoy
