#include "test/envoy/scripted_module.h"

#include "fmt/format.h"

namespace idempotency::test {
namespace {

std::string joined(std::span<const envoy::Field> fields) {
  std::string text;
  for (const envoy::Field& field : fields) {
    text += fmt::format(" {}={}", field.nameView(), field.valueView());
  }
  return text;
}

std::string joined(std::span<const envoy::raw::Bytes> chunks) {
  std::string text;
  for (const envoy::raw::Bytes& chunk : chunks) {
    text += envoy::toView(chunk);
  }
  return text;
}

void tellSide(const std::string& line) {
  if (script().side) {
    script().side(line);
  }
}

// The side-request hooks of filters and configs, as lines.
void calloutDone(const char* who, uint64_t id, envoy::CalloutResult result,
                 std::span<const envoy::Field> headers, std::span<const envoy::raw::Bytes> body) {
  tellSide(fmt::format("{} callout {} result {}{} body '{}'", who, id, static_cast<int>(result),
                       joined(headers), joined(body)));
}
void sideHeaders(const char* who, uint64_t id, std::span<const envoy::Field> headers, bool end) {
  tellSide(fmt::format("{} headers {}{} end {}", who, id, joined(headers), end));
}
void sideData(const char* who, uint64_t id, std::span<const envoy::raw::Bytes> data, bool end) {
  tellSide(fmt::format("{} data {} '{}' end {}", who, id, joined(data), end));
}
void sideTrailers(const char* who, uint64_t id, std::span<const envoy::Field> trailers) {
  tellSide(fmt::format("{} trailers {}{}", who, id, joined(trailers)));
}
void sideComplete(const char* who, uint64_t id) {
  tellSide(fmt::format("{} complete {}", who, id));
}
void sideReset(const char* who, uint64_t id, envoy::SideStreamReset reason) {
  tellSide(fmt::format("{} reset {} reason {}", who, id, static_cast<int>(reason)));
}

}  // namespace

Script& script() {
  static auto* instance = new Script();
  return *instance;
}

envoy::HeadersAction ScriptedFilter::onRequestHeaders(bool end) {
  return script().request_headers ? script().request_headers(*this, end)
                                  : Filter::onRequestHeaders(end);
}
envoy::BodyAction ScriptedFilter::onRequestBody(bool end) {
  return script().request_body ? script().request_body(*this, end) : Filter::onRequestBody(end);
}
envoy::TrailersAction ScriptedFilter::onRequestTrailers() {
  return script().request_trailers ? script().request_trailers(*this) : Filter::onRequestTrailers();
}
envoy::HeadersAction ScriptedFilter::onResponseHeaders(bool end) {
  return script().response_headers ? script().response_headers(*this, end)
                                   : Filter::onResponseHeaders(end);
}
envoy::BodyAction ScriptedFilter::onResponseBody(bool end) {
  return script().response_body ? script().response_body(*this, end) : Filter::onResponseBody(end);
}
envoy::TrailersAction ScriptedFilter::onResponseTrailers() {
  return script().response_trailers ? script().response_trailers(*this)
                                    : Filter::onResponseTrailers();
}
envoy::LocalReplyAction ScriptedFilter::onLocalReply(uint32_t code, std::string_view details,
                                                     bool reset_imminent) {
  return script().local_reply ? script().local_reply(*this, code, details)
                              : Filter::onLocalReply(code, details, reset_imminent);
}
void ScriptedFilter::onStreamComplete() {
  if (script().stream_complete) {
    script().stream_complete(*this);
  }
}
void ScriptedFilter::onDownstreamAboveHighWatermark() {
  if (script().watermark) {
    script().watermark(*this);
  }
}
void ScriptedFilter::onDownstreamBelowLowWatermark() {
  if (script().watermark) {
    script().watermark(*this);
  }
}

void ScriptedFilter::onCalloutDone(uint64_t id, envoy::CalloutResult result,
                                   std::span<const envoy::Field> headers,
                                   std::span<const envoy::raw::Bytes> body) {
  calloutDone("filter", id, result, headers, body);
}
void ScriptedFilter::onSideHeaders(uint64_t id, std::span<const envoy::Field> headers, bool end) {
  sideHeaders("filter", id, headers, end);
}
void ScriptedFilter::onSideData(uint64_t id, std::span<const envoy::raw::Bytes> data, bool end) {
  sideData("filter", id, data, end);
}
void ScriptedFilter::onSideTrailers(uint64_t id, std::span<const envoy::Field> trailers) {
  sideTrailers("filter", id, trailers);
}
void ScriptedFilter::onSideComplete(uint64_t id) {
  sideComplete("filter", id);
}
void ScriptedFilter::onSideReset(uint64_t id, envoy::SideStreamReset reason) {
  sideReset("filter", id, reason);
}

std::unique_ptr<envoy::Filter> ScriptedConfig::createFilter(envoy::Stream stream) {
  if (script().create_filter) {
    script().create_filter();
  }
  return script().null_filter ? nullptr : std::make_unique<ScriptedFilter>(stream);
}
void ScriptedConfig::onCalloutDone(uint64_t id, envoy::CalloutResult result,
                                   std::span<const envoy::Field> headers,
                                   std::span<const envoy::raw::Bytes> body) {
  calloutDone("config", id, result, headers, body);
}
void ScriptedConfig::onSideHeaders(uint64_t id, std::span<const envoy::Field> headers, bool end) {
  sideHeaders("config", id, headers, end);
}
void ScriptedConfig::onSideData(uint64_t id, std::span<const envoy::raw::Bytes> data, bool end) {
  sideData("config", id, data, end);
}
void ScriptedConfig::onSideTrailers(uint64_t id, std::span<const envoy::Field> trailers) {
  sideTrailers("config", id, trailers);
}
void ScriptedConfig::onSideComplete(uint64_t id) {
  sideComplete("config", id);
}
void ScriptedConfig::onSideReset(uint64_t id, envoy::SideStreamReset reason) {
  sideReset("config", id, reason);
}

}  // namespace idempotency::test

namespace idempotency::envoy {

std::unique_ptr<FilterFactory> createFilterFactory(ConfigHandle handle, std::string_view,
                                                   std::string_view) {
  test::Script& script = test::script();
  if (script.create_config) {
    script.create_config(handle);
  }
  if (script.null_config) {
    return nullptr;
  }
  auto config = std::make_unique<test::ScriptedConfig>(handle);
  script.config = config.get();
  return config;
}

std::unique_ptr<RouteConfig> createRouteConfig(std::string_view, std::string_view json) {
  if (json == "refuse") {
    return nullptr;
  }
  if (json == "throw") {
    throw std::runtime_error("route config throws");
  }
  return std::make_unique<test::ScriptedRoute>(json);
}

}  // namespace idempotency::envoy
