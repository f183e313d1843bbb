// The binding inside a real Envoy. Each request names in `x-probe` what to try; what was seen comes
// back as lines of text in a local reply, or as headers on the upstream's answer. test_binding.py
// knows what each must say.
#include <array>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "source/envoy/filter.h"
#include "source/envoy/process.h"

namespace idempotency::envoy {
namespace {

struct ProbeMetrics {
  Counter counter;
  LabelledCounter<2> labelled;
  Gauge gauge;
  LabelledGauge<1> labelled_gauge;
  Histogram histogram;
};

class ProbeConfig;

class ProbeFilter : public Filter {
public:
  ProbeFilter(Stream stream, ProbeConfig& config) : Filter(stream), config_(config) {}
  ~ProbeFilter() override;

  HeadersAction onRequestHeaders(bool end) override;
  BodyAction onRequestBody(bool end) override;
  TrailersAction onRequestTrailers() override;
  HeadersAction onResponseHeaders(bool end) override;
  BodyAction onResponseBody(bool end) override;
  TrailersAction onResponseTrailers() override;
  LocalReplyAction onLocalReply(uint32_t code, std::string_view details, bool) override;
  void onStreamComplete() override;
  void onCalloutDone(uint64_t id, CalloutResult result, std::span<const Field> headers,
                     std::span<const raw::Bytes> body) override;
  void onSideHeaders(uint64_t id, std::span<const Field> headers, bool end) override;
  void onSideData(uint64_t id, std::span<const raw::Bytes> data, bool end) override;
  void onSideTrailers(uint64_t id, std::span<const Field> trailers) override;
  void onSideComplete(uint64_t id) override;
  void onSideReset(uint64_t id, SideStreamReset reason) override;

private:
  bool asked(std::string_view what) const { return probe_ == what; }
  void throwIf(std::string_view hook) const;
  void reply(std::string_view details = "probe");
  HeadersAction startHeld();
  HeadersAction requestFacts();
  HeadersAction sideRequest();
  void whole();
  void say(std::string line) { lines_ += std::move(line) + "\n"; }

  ProbeConfig& config_;
  std::string probe_;
  std::string lines_;
  bool held_ = false;
  std::thread helper_;
};

class ProbeConfig : public FilterFactory {
public:
  ProbeConfig(ConfigHandle handle, ProbeMetrics metrics, std::string json)
      : FilterFactory(handle), metrics(metrics), json(std::move(json)) {
    // Makes the scheduler on the main thread, as mailbox() asks.
    mailbox();
  }
  using FilterFactory::handle;

  std::unique_ptr<Filter> createFilter(Stream stream) override {
    if (stream.requestHeaders().get("x-probe") == "throw-create") {
      throw std::runtime_error("probe: create");
    }
    return std::make_unique<ProbeFilter>(stream, *this);
  }

  void onCalloutDone(uint64_t id, CalloutResult result, std::span<const Field> headers,
                     std::span<const raw::Bytes> body) override {
    std::string text = fmt::format("result {}", static_cast<int>(result));
    for (const Field& field : headers) {
      if (field.nameView() == ":status") {
        text += fmt::format(" status {}", field.valueView());
      }
    }
    for (const raw::Bytes& chunk : body) {
      text += fmt::format(" body {}", toView(chunk));
    }
    finish(id, std::move(text));
  }
  void onSideHeaders(uint64_t id, std::span<const Field>, bool) override { parts[id] += "headers"; }
  void onSideData(uint64_t id, std::span<const raw::Bytes> data, bool) override {
    for (const raw::Bytes& chunk : data) {
      parts[id] += fmt::format(" {}", toView(chunk));
    }
  }
  void onSideComplete(uint64_t id) override { finish(id, parts[id] + " complete"); }
  void onSideReset(uint64_t id, SideStreamReset) override { finish(id, "reset"); }

  void finish(uint64_t id, std::string text) {
    if (const auto found = waiting.find(id); found != waiting.end()) {
      found->second(std::move(text));
      waiting.erase(found);
    }
  }

  const ProbeMetrics metrics;
  const std::string json;
  // Main thread only.
  std::map<uint64_t, std::function<void(std::string)>> waiting;
  std::map<uint64_t, std::string> parts;
};

struct ProbeRoute : RouteConfig {
  explicit ProbeRoute(std::string_view text) : json(text) {}
  const std::string json;
};

std::string text(std::optional<std::string_view> value) {
  return value.has_value() ? fmt::format("'{}'", *value) : "none";
}

ProbeFilter::~ProbeFilter() {
  if (helper_.joinable()) {
    helper_.join();
  }
}

void ProbeFilter::throwIf(std::string_view hook) const {
  if (probe_ == fmt::format("throw-{}", hook)) {
    throw std::runtime_error(fmt::format("probe: {}", hook));
  }
}

void ProbeFilter::reply(std::string_view details) {
  const std::string lines = lines_;
  const Field headers[] = {{"content-type", "text/x-probe"}, {"x-empty", ""}};
  stream().sendLocalReply(299, headers, lines, details);
}

HeadersAction ProbeFilter::onRequestHeaders(bool end) {
  probe_ = stream().requestHeaders().get("x-probe").value_or("");
  throwIf("request-headers");
  if (asked("facts")) {
    return requestFacts();
  }
  if (asked("held") || asked("held-reply") || asked("throw-scheduled")) {
    return startHeld();
  }
  if (asked("config-mail")) {
    const auto own = mailbox();
    config_.mailbox()->post([own] { own->post([] {}); });
    helper_ = std::thread([this, own] {
      config_.mailbox()->post([this, own] {
        config_.handle().increment(config_.metrics.counter, 100);
        own->post([this] { stream().continueRequest(); });
      });
    });
    return HeadersAction::StopIteration;
  }
  if (asked("whole") || asked("throw-request-body") || asked("throw-request-trailers")) {
    if (end) {
      reply();
    }
    return HeadersAction::StopIteration;
  }
  if (asked("edit")) {
    const Headers headers = stream().requestHeaders();
    headers.add("x-added", "1");
    headers.add("x-added", "2");
    headers.set("x-set", "new");
    headers.remove("x-removed");
    return HeadersAction::Continue;
  }
  if (asked("streamed")) {
    const Field headers[] = {{":status", "201"}, {"x-two", "a"}, {"x-two", "b"}};
    stream().sendResponseHeaders(headers, false);
    stream().sendResponseData("one ", false);
    stream().sendResponseData("two", false);
    const Field trailers[] = {{"x-trailer", "t"}};
    stream().sendResponseTrailers(trailers);
    return HeadersAction::StopIteration;
  }
  if (asked("reset")) {
    stream().reset(StreamReset::LocalReset, "probe_reset");
    return HeadersAction::StopIteration;
  }
  if (asked("metrics")) {
    const ProbeMetrics& metrics = config_.metrics;
    stream().increment(metrics.counter, 3);
    stream().increment(metrics.labelled, {"x", "y"}, 2);
    stream().increment(metrics.gauge, 9);
    stream().decrement(metrics.gauge, 4);
    stream().record(metrics.histogram, 12);
    return HeadersAction::Continue;
  }
  if (asked("gauge")) {
    stream().set(config_.metrics.gauge, 40);
    return HeadersAction::Continue;
  }
  if (asked("callout") || asked("callout-fails") || asked("side-stream") || asked("side-reset") ||
      asked("config-callout") || asked("config-stream")) {
    return sideRequest();
  }
  return HeadersAction::Continue;
}

HeadersAction ProbeFilter::requestFacts() {
  const Stream s = stream();
  const Headers headers = s.requestHeaders();
  say(fmt::format("method {}", text(headers.get(":method"))));
  say(fmt::format("twice {} {} {} {}", headers.count("x-twice"), text(headers.get("X-Twice", 0)),
                  text(headers.get("x-twice", 1)), text(headers.get("x-twice", 2))));
  say(fmt::format("absent {} {}", headers.count("x-absent"), text(headers.get("x-absent"))));
  std::string names;
  for (const Field& field : headers.all()) {
    if (field.nameView().starts_with("x-t")) {
      names += fmt::format(" {}={}", field.nameView(), field.valueView());
    }
  }
  say(fmt::format("all{}", names));
  say(fmt::format("empty add {} set {}", headers.add("x-e", ""), headers.set("x-e", "")));
  say(fmt::format("response map {}", s.responseHeaders().add("x", "1")));
  say(fmt::format("path {}", text(s.text(Attribute::RequestPath))));
  say(fmt::format("url path {}", text(s.text(Attribute::RequestUrlPath))));
  say(fmt::format("query {}", text(s.text(Attribute::RequestQuery))));
  say(fmt::format("host {}", text(s.text(Attribute::RequestHost))));
  say(fmt::format("scheme {}", text(s.text(Attribute::RequestScheme))));
  say(fmt::format("attribute method {}", text(s.text(Attribute::RequestMethod))));
  say(fmt::format("protocol {}", text(s.text(Attribute::RequestProtocol))));
  say(fmt::format("request id {}", s.text(Attribute::RequestId).value_or("").size()));
  say(fmt::format("source {}", s.text(Attribute::SourceAddress).value_or("").starts_with("127.")));
  say(fmt::format("connection {}", s.number(Attribute::ConnectionId).has_value()));
  say(fmt::format("mtls known {}", s.flag(Attribute::ConnectionMtls).has_value()));
  say(fmt::format("mtls {}", s.flag(Attribute::ConnectionMtls).value_or(false)));
  say(fmt::format("peer {}", text(s.text(Attribute::PeerUriSan))));
  say(fmt::format("peer dns {}", text(s.text(Attribute::PeerDnsSan))));
  say(fmt::format("peer subject {}", text(s.text(Attribute::PeerSubject))));
  say(fmt::format("peer digest {}", s.text(Attribute::PeerDigest).value_or("").size()));
  say(fmt::format("route name {}", text(s.text(Attribute::RouteName))));
  say(fmt::format("attempts {}", s.number(Attribute::UpstreamAttemptCount).value_or(77)));
  say(fmt::format("wrong kind {}", s.number(Attribute::RequestPath).has_value()));
  say(fmt::format("cluster {}", text(s.clusterName())));
  say(fmt::format("worker {}", s.workerIndex() < 2));
  const auto* route = static_cast<const ProbeRoute*>(routeConfig(s));
  say(fmt::format("route {}", route == nullptr ? "none" : route->json));
  say(fmt::format("config {}", config_.json));
  s.setMetadata("probe", "text", "value");
  const std::array<Field, 2> entries = {Field("one", "1"), Field("two", "2")};
  s.setMetadata("probe", entries);
  s.setMetadataNumber("probe", "number", 2.5);
  s.setMetadataFlag("probe", "flag", true);
  say(fmt::format("metadata {} {} {} {}",
                  text(s.metadata(MetadataSource::Dynamic, "probe", "text")),
                  s.metadataNumber(MetadataSource::Dynamic, "probe", "number").value_or(0),
                  s.metadataFlag(MetadataSource::Dynamic, "probe", "flag").value_or(false),
                  text(s.metadata(MetadataSource::Route, "probe", "text"))));
  say(fmt::format("entries {} {}", text(s.metadata(MetadataSource::Dynamic, "probe", "one")),
                  text(s.metadata(MetadataSource::Dynamic, "probe", "two"))));
  say(fmt::format("route metadata {}", text(s.metadata(MetadataSource::Route, "given", "text"))));
  say(fmt::format("state before {}", text(s.filterState("probe"))));
  say(fmt::format("state set {}", s.setFilterState("probe", "kept")));
  say(fmt::format("state after {}", text(s.filterState("probe"))));
  s.addCustomFlag("PROBE");
  s.setSpanTag("probe", "tag");
  const std::optional<SpanIds> ids = s.spanIds();
  say(fmt::format("span {}", ids ? fmt::format("{} {}", ids->trace, ids->span) : "none"));
  const uint64_t limit = s.bufferLimit();
  s.setBufferLimit(limit + 1);
  say(fmt::format("limit {} {}", limit > 0, s.bufferLimit() == limit + 1));
  say(fmt::format("late metric {}", config_.handle().defineCounter("late").has_value()));
  say(fmt::format("secret {}", s.secret(1).has_value()));
  say(fmt::format("log {} {}", logEnabled(LogLevel::Trace), logEnabled(LogLevel::Critical)));
  log(LogLevel::Info, "probe: a line for the log");
  reply("probe_facts");
  return HeadersAction::StopIteration;
}

HeadersAction ProbeFilter::startHeld() {
  held_ = true;
  helper_ = std::thread([this, own = mailbox()] {
    own->post([this] {
      throwIf("scheduled");
      if (asked("held-reply")) {
        say("answered by a task");
        reply();
      } else {
        held_ = false;
        stream().continueRequest();
      }
    });
  });
  return HeadersAction::StopIteration;
}

HeadersAction ProbeFilter::sideRequest() {
  // A static array: the request of a config is sent later, on the main thread.
  static const Field headers[] = {
      {":method", "POST"}, {":path", "/side"}, {"host", "side"}, {"x-side", "yes"}};
  const SideRequest request{"upstream", headers, "first ", std::chrono::seconds(5)};
  if (asked("callout")) {
    say(fmt::format("start {}", static_cast<int>(stream().startCallout(request).result)));
    const SideRequest nowhere{"nowhere", headers, "", std::chrono::seconds(5)};
    say(fmt::format("nowhere {}", static_cast<int>(stream().startCallout(nowhere).result)));
    const SideRequest bare{"upstream", {}, "", std::chrono::seconds(5)};
    say(fmt::format("bare {}", static_cast<int>(stream().startCallout(bare).result)));
  } else if (asked("callout-fails")) {
    const SideRequest dead{"dead", headers, "", std::chrono::seconds(5)};
    say(fmt::format("start {}", static_cast<int>(stream().startCallout(dead).result)));
  } else if (asked("side-stream") || asked("side-reset")) {
    const SideRequestStart start = stream().startSideStream(request, false);
    say(fmt::format("start {}", static_cast<int>(start.result)));
    if (asked("side-reset")) {
      stream().resetSideStream(start.id);
      say(fmt::format("sent {}", stream().sendSideData(start.id, "x", true)));
      reply();
    } else {
      say(fmt::format("sent {}", stream().sendSideData(start.id, "second ", false)));
      const Field trailers[] = {{"x-trailer", "t"}};
      say(fmt::format("trailers {}", stream().sendSideTrailers(start.id, trailers)));
    }
  } else {
    config_.mailbox()->post([this, request, own = mailbox()] {
      const auto done = [this, own](std::string line) {
        own->post([this, line = std::move(line)] {
          say(line);
          reply();
        });
      };
      const ConfigHandle handle = config_.handle();
      if (asked("config-callout")) {
        const SideRequestStart start = handle.startCallout(request);
        start.ok() ? void(config_.waiting[start.id] = done) : done("not started");
        return;
      }
      const SideRequestStart start = handle.startSideStream(request, false);
      if (!start.ok() || !handle.sendSideData(start.id, "second", true)) {
        done("not started");
        return;
      }
      config_.waiting[start.id] = done;
    });
  }
  return HeadersAction::StopIteration;
}

void ProbeFilter::whole() {
  std::string body;
  for (const std::string_view chunk : stream().wholeBody(Direction::Request)) {
    body += chunk;
  }
  say(fmt::format("size {} body {}", stream().wholeBodySize(Direction::Request), body));
  reply();
}

BodyAction ProbeFilter::onRequestBody(bool end) {
  throwIf("request-body");
  if (asked("whole")) {
    if (end) {
      whole();
    }
    return BodyAction::StopIterationAndBuffer;
  }
  if (asked("throw-request-trailers")) {
    return BodyAction::StopIterationAndBuffer;
  }
  if (asked("edit") && end) {
    const Body body = stream().received(Direction::Request);
    body.append("!");
  }
  // Continue would let the held request go.
  return held_ ? BodyAction::StopIterationAndBuffer : BodyAction::Continue;
}

TrailersAction ProbeFilter::onRequestTrailers() {
  throwIf("request-trailers");
  if (asked("whole")) {
    say(fmt::format("trailer {}", text(stream().requestTrailers().get("x-trailer"))));
    whole();
    return TrailersAction::StopIteration;
  }
  return TrailersAction::Continue;
}

HeadersAction ProbeFilter::onResponseHeaders(bool end) {
  throwIf("response-headers");
  const Headers headers = stream().responseHeaders();
  headers.set("x-details", stream().text(Attribute::ResponseCodeDetails).value_or("none"));
  headers.set("x-flags", fmt::format("{}", stream().number(Attribute::ResponseFlags).value_or(77)));
  headers.set("x-attempts",
              fmt::format("{}", stream().number(Attribute::UpstreamAttemptCount).value_or(77)));
  if (asked("edit-response")) {
    headers.remove("content-length");
    return end ? HeadersAction::Continue : HeadersAction::StopIteration;
  }
  if (asked("throw-response-body-held") && !end) {
    return HeadersAction::StopIteration;
  }
  return HeadersAction::Continue;
}

BodyAction ProbeFilter::onResponseBody(bool end) {
  throwIf("response-body");
  if (asked("throw-response-body-held")) {
    throw std::runtime_error("probe: response-body-held");
  }
  if (asked("edit-response")) {
    if (!end) {
      return BodyAction::StopIterationAndBuffer;
    }
    const size_t size = stream().wholeBodySize(Direction::Response);
    stream().received(Direction::Response).append(fmt::format(" +{}", size));
  }
  return BodyAction::Continue;
}

TrailersAction ProbeFilter::onResponseTrailers() {
  throwIf("response-trailers");
  stream().responseTrailers().set("x-seen", "yes");
  return TrailersAction::Continue;
}

LocalReplyAction ProbeFilter::onLocalReply(uint32_t code, std::string_view details, bool) {
  throwIf("local-reply");
  log(LogLevel::Info, fmt::format("probe: local reply {} {}", code, details));
  return LocalReplyAction::Continue;
}

void ProbeFilter::onStreamComplete() {
  throwIf("stream-complete");
  if (!probe_.empty()) {
    log(LogLevel::Info, fmt::format("probe: complete {} {}", probe_,
                                    stream().text(Attribute::ResponseCodeDetails).value_or("-")));
  }
}

void ProbeFilter::onCalloutDone(uint64_t, CalloutResult result, std::span<const Field> headers,
                                std::span<const raw::Bytes> body) {
  say(fmt::format("result {}", static_cast<int>(result)));
  for (const Field& field : headers) {
    if (field.nameView() == ":status") {
      say(fmt::format("status {}", field.valueView()));
    }
  }
  std::string whole;
  for (const raw::Bytes& chunk : body) {
    whole += toView(chunk);
  }
  say(fmt::format("body {}", whole));
  reply();
}

void ProbeFilter::onSideHeaders(uint64_t, std::span<const Field> headers, bool) {
  for (const Field& field : headers) {
    if (field.nameView() == ":status") {
      say(fmt::format("status {}", field.valueView()));
    }
  }
}

void ProbeFilter::onSideData(uint64_t, std::span<const raw::Bytes> data, bool) {
  for (const raw::Bytes& chunk : data) {
    say(fmt::format("data {}", toView(chunk)));
  }
}

void ProbeFilter::onSideTrailers(uint64_t, std::span<const Field> trailers) {
  for (const Field& field : trailers) {
    say(fmt::format("trailer {} {}", field.nameView(), field.valueView()));
  }
}

void ProbeFilter::onSideComplete(uint64_t) {
  say("complete");
  reply();
}

void ProbeFilter::onSideReset(uint64_t, SideStreamReset reason) {
  say(fmt::format("reset {}", static_cast<int>(reason)));
  if (asked("side-stream")) {
    reply();
  }
}

}  // namespace

std::unique_ptr<FilterFactory> createFilterFactory(ConfigHandle handle, std::string_view,
                                                   std::string_view json) {
  log(LogLevel::Info,
      fmt::format("probe: validation {} concurrency {}", isValidationMode(), concurrency()));
  if (json.find("throw") != std::string_view::npos) {
    throw std::runtime_error("probe: config");
  }
  const auto counter = handle.defineCounter("counter");
  const auto labelled = handle.defineCounter<2>("labelled", {"first", "second"});
  const auto gauge = handle.defineGauge("gauge");
  const auto labelled_gauge = handle.defineGauge<1>("labelled_gauge", {"tenant"});
  const auto histogram = handle.defineHistogram("histogram");
  if (!counter || !labelled || !gauge || !labelled_gauge || !histogram) {
    return nullptr;
  }
  log(LogLevel::Info, fmt::format("probe: secret {} envoy 1.40 {}",
                                  handle.subscribeSecret("probe", "").has_value(), isEnvoy140()));
  return std::make_unique<ProbeConfig>(
      handle, ProbeMetrics{*counter, *labelled, *gauge, *labelled_gauge, *histogram},
      std::string(json));
}

std::unique_ptr<RouteConfig> createRouteConfig(std::string_view, std::string_view json) {
  if (json.find("throw") != std::string_view::npos) {
    throw std::runtime_error("probe: route config");
  }
  return std::make_unique<ProbeRoute>(json);
}

}  // namespace idempotency::envoy
