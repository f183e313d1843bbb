#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "source/envoy/config_handle.h"
#include "source/envoy/mailbox.h"
#include "source/envoy/side_requests.h"
#include "source/envoy/stream.h"

// What a module implements. hooks.cc converts Envoy's C hooks to calls of these classes. If a hook
// throws, its request fails closed: hooks.cc answers 500 (if a response has begun, Envoy resets the
// stream instead), counts `hook_exception`, and calls no further hook except onStreamComplete.
// Destructors must not throw.
namespace idempotency::envoy {

// The filter of one stream. All hooks run on the stream's worker. Created when the stream begins,
// destroyed on the worker after its end, never inside one of its own hooks: Envoy 1.39 would do
// that, so hooks.cc waits until the hook returns.
class Filter : public SideRequestHooks {
public:
  explicit Filter(Stream stream) : stream_(stream) {}
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  ~Filter() override;

  // `end`: nothing follows. After StopIteration, a later Continue from the body hook releases the
  // request.
  virtual HeadersAction onRequestHeaders(bool /*end*/) { return HeadersAction::Continue; }
  virtual BodyAction onRequestBody(bool /*end*/) { return BodyAction::Continue; }
  virtual TrailersAction onRequestTrailers() { return TrailersAction::Continue; }

  // Also for replies of Envoy or of other filters, after onLocalReply; never for our own.
  virtual HeadersAction onResponseHeaders(bool /*end*/) { return HeadersAction::Continue; }
  virtual BodyAction onResponseBody(bool /*end*/) { return BodyAction::Continue; }
  virtual TrailersAction onResponseTrailers() { return TrailersAction::Continue; }

  // Envoy or a filter, possibly this one, replies in place of the upstream. Never send a reply in
  // here.
  virtual LocalReplyAction onLocalReply(uint32_t /*code*/, std::string_view /*details*/,
                                        bool /*reset_imminent*/) {
    return LocalReplyAction::Continue;
  }

  // The end of every stream, before access logs are written. May run inside another hook of the
  // same filter. Do bookkeeping here.
  virtual void onStreamComplete() {}

  // The client reads too slowly, or fast enough again.
  virtual void onDownstreamAboveHighWatermark() {}
  virtual void onDownstreamBelowLowWatermark() {}

  // Where other threads post tasks for this stream. Call it on the worker. The result may be kept
  // on any thread and may outlive the filter, which closes it when destroyed.
  std::shared_ptr<Mailbox> mailbox();

protected:
  Stream stream() const { return stream_; }

private:
  friend class StreamHolder;  // hooks.cc: closes and drains the mailbox.
  void closeMailbox();

  const Stream stream_;
  std::shared_ptr<Mailbox> mailbox_;
};

// Creates the filters of one filter config. Created on the main thread; createFilter runs on any
// worker, concurrently. Destroyed on the main thread at a listener update or at shutdown; with
// ECDS, on the worker that ends the last stream. So never block or join in the destructor on a
// worker. Its ConfigHandle is invalid by then.
class FilterFactory : public SideRequestHooks {
public:
  explicit FilterFactory(ConfigHandle handle) : handle_(handle) {}
  FilterFactory(const FilterFactory&) = delete;
  FilterFactory& operator=(const FilterFactory&) = delete;
  ~FilterFactory() override;

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

// The config of one route. Created on the main thread, destroyed on any Envoy thread. All workers
// read it, so it is immutable, except for what guards itself.
class RouteConfig {
public:
  virtual ~RouteConfig() = default;
};

// The config of the stream's route; null if the route has none. Valid until the hook returns or
// clearRouteCache() is called.
const RouteConfig* routeConfig(Stream stream);

// Supplied by the module at link time. Null rejects the config: log the reason first. `json` is
// valid only during the call.
std::unique_ptr<FilterFactory> createFilterFactory(ConfigHandle handle, std::string_view name,
                                                   std::string_view json);
std::unique_ptr<RouteConfig> createRouteConfig(std::string_view name, std::string_view json);

}  // namespace idempotency::envoy
