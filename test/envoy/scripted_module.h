#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "source/envoy/filter.h"

// A module whose hooks a test writes as closures. Links createFilterFactory and createRouteConfig.
namespace idempotency::test {

class ScriptedFilter;

// What the hooks of the next filters and configs do. Reset by each test.
struct Script {
  std::function<envoy::HeadersAction(ScriptedFilter&, bool)> request_headers;
  std::function<envoy::BodyAction(ScriptedFilter&, bool)> request_body;
  std::function<envoy::TrailersAction(ScriptedFilter&)> request_trailers;
  std::function<envoy::HeadersAction(ScriptedFilter&, bool)> response_headers;
  std::function<envoy::BodyAction(ScriptedFilter&, bool)> response_body;
  std::function<envoy::TrailersAction(ScriptedFilter&)> response_trailers;
  std::function<envoy::LocalReplyAction(ScriptedFilter&, uint32_t, std::string_view)> local_reply;
  std::function<void(ScriptedFilter&)> stream_complete;
  std::function<void(ScriptedFilter&)> watermark;
  std::function<void(const std::string&)> side;  // One line per event of a side request.
  std::function<void()> create_filter;           // Before a filter is made.
  std::function<void(envoy::ConfigHandle)> create_config;
  bool null_filter = false;
  bool null_config = false;
  int filters_alive = 0;
  int configs_alive = 0;
  int routes_alive = 0;
  envoy::FilterFactory* config = nullptr;  // The newest one.
};
Script& script();

class ScriptedFilter : public envoy::Filter {
public:
  explicit ScriptedFilter(envoy::Stream stream) : Filter(stream) { ++script().filters_alive; }
  ~ScriptedFilter() override { --script().filters_alive; }

  using Filter::stream;

  envoy::HeadersAction onRequestHeaders(bool end) override;
  envoy::BodyAction onRequestBody(bool end) override;
  envoy::TrailersAction onRequestTrailers() override;
  envoy::HeadersAction onResponseHeaders(bool end) override;
  envoy::BodyAction onResponseBody(bool end) override;
  envoy::TrailersAction onResponseTrailers() override;
  envoy::LocalReplyAction onLocalReply(uint32_t code, std::string_view details, bool) override;
  void onStreamComplete() override;
  void onDownstreamAboveHighWatermark() override;
  void onDownstreamBelowLowWatermark() override;
  void onCalloutDone(uint64_t id, envoy::CalloutResult result,
                     std::span<const envoy::Field> headers,
                     std::span<const envoy::raw::Bytes> body) override;
  void onSideHeaders(uint64_t id, std::span<const envoy::Field> headers, bool end) override;
  void onSideData(uint64_t id, std::span<const envoy::raw::Bytes> data, bool end) override;
  void onSideTrailers(uint64_t id, std::span<const envoy::Field> trailers) override;
  void onSideComplete(uint64_t id) override;
  void onSideReset(uint64_t id, envoy::SideStreamReset reason) override;
};

class ScriptedConfig : public envoy::FilterFactory {
public:
  explicit ScriptedConfig(envoy::ConfigHandle handle) : FilterFactory(handle) {
    ++script().configs_alive;
  }
  ~ScriptedConfig() override { --script().configs_alive; }

  using FilterFactory::handle;

  std::unique_ptr<envoy::Filter> createFilter(envoy::Stream stream) override;
  void onCalloutDone(uint64_t id, envoy::CalloutResult result,
                     std::span<const envoy::Field> headers,
                     std::span<const envoy::raw::Bytes> body) override;
  void onSideHeaders(uint64_t id, std::span<const envoy::Field> headers, bool end) override;
  void onSideData(uint64_t id, std::span<const envoy::raw::Bytes> data, bool end) override;
  void onSideTrailers(uint64_t id, std::span<const envoy::Field> trailers) override;
  void onSideComplete(uint64_t id) override;
  void onSideReset(uint64_t id, envoy::SideStreamReset reason) override;
};

struct ScriptedRoute : envoy::RouteConfig {
  explicit ScriptedRoute(std::string_view text) : json(text) { ++script().routes_alive; }
  ~ScriptedRoute() override { --script().routes_alive; }
  const std::string json;
};

}  // namespace idempotency::test
