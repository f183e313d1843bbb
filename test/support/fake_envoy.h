#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "source/envoy/raw.h"

// An Envoy in memory: defines the C functions that the binding calls, records what was called, and
// calls the module's hooks the way the real one does (order, nesting, buffering, what exists when).
// A call that the real Envoy would answer with a crash (dead handle, wrong thread, unknown metric)
// fails the running test instead.
//
// Link :fake_envoy alone for an Envoy 1.39; add :fake_envoy_140 for the functions that only 1.40
// has.
namespace idempotency::fake {

namespace raw = envoy::raw;

using FieldList = std::vector<std::pair<std::string, std::string>>;

// When Envoy lets go of a filter whose stream ends inside one of the filter's own calls.
enum class DestroyTime {
  InsideCall,  // 1.39, from a scheduled event.
  AfterHook,   // 1.40.
};

// Process-wide state; reset() at the start of a test.
struct Process {
  std::mutex mutex;  // Log lines and values come from any thread.
  std::vector<std::pair<raw::LogLevel, std::string>> log;
  raw::LogLevel log_level = raw::LogLevel::Trace;
  bool validation_mode = false;
  uint32_t concurrency = 2;
  DestroyTime destroy_time = DestroyTime::InsideCall;
  std::map<std::string, std::string> secrets;  // By name; Envoy 1.40 only.

  // Counters and gauges by admin name. The real Envoy has one of each, which all configs change; a
  // Config below knows its own share only.
  std::map<std::string, int64_t> values;

  bool logged(raw::LogLevel level, std::string_view part);
};
Process& process();
void resetProcess();

// A request of the module to a cluster.
struct SideRequest {
  uint64_t id = 0;
  std::string cluster;
  FieldList headers;
  std::string body;
  bool stream = false;  // startSideStream, else a callout.
  bool ended = false;   // The module's side is complete.
  bool reset = false;
  uint64_t timeout_ms = 0;
  FieldList trailers;
};

// Events that were committed and not yet delivered. Outlives the stream or config, like Envoy's.
class EventQueue {
public:
  void commit(uint64_t event);  // Any thread.
  bool take(uint64_t& event);
  void die();  // The stream is gone: commits do nothing.
  size_t waiting();

private:
  std::mutex mutex_;
  std::vector<uint64_t> events_;
  bool dead_ = false;
};

// Side requests of a stream or a config, and what the module's calls about them do.
class SideRequests {
public:
  raw::CalloutStart start(SideRequest request, uint64_t* id);
  SideRequest* find(uint64_t id);  // Null: over or never there.
  void finish(uint64_t id);

  std::vector<SideRequest> all;  // Those that are over too.
  std::vector<std::string> clusters = {"upstream"};

private:
  std::vector<uint64_t> live_;
  uint64_t next_id_ = 1;
};

// One filter config in one Envoy. Makes the module's config; destroys it at the end.
class Config {
public:
  Config(std::string_view name, std::string_view json);
  ~Config();
  Config(const Config&) = delete;

  // Destroys the module's config now. What it counted can still be read.
  void end();
  bool loaded() const { return module_config_ != nullptr; }
  raw::ModuleConfigPtr moduleConfig() const { return module_config_; }

  // Values by admin name without the namespace: "name", or "name.label.value" for labelled ones.
  uint64_t counter(const std::string& name) const;
  uint64_t gauge(const std::string& name) const;
  std::vector<uint64_t> histogram(const std::string& name) const;

  // Delivers committed events on this thread, which plays the main thread. Returns how many.
  int runScheduled();

  // Ends of side requests.
  void finishCallout(uint64_t id, raw::CalloutResult result, const FieldList& headers,
                     const std::string& body);
  void sideHeaders(uint64_t id, const FieldList& headers, bool end);
  void sideData(uint64_t id, const std::string& data, bool end);
  void sideTrailers(uint64_t id, const FieldList& trailers);
  void sideComplete(uint64_t id);
  void sideReset(uint64_t id);

  SideRequests side;
  std::shared_ptr<EventQueue> events = std::make_shared<EventQueue>();

  // For the C functions below.
  struct Metric {
    std::string kind;
    std::string name;
    std::vector<std::string> labels;
  };
  raw::MetricResult define(const char* kind, raw::Bytes name, const raw::Bytes* labels,
                           size_t count, size_t* id);
  enum class Through { Stream, Config };
  raw::MetricResult change(const char* kind, size_t id, const raw::Bytes* values, size_t count,
                           int64_t delta, bool absolute, Through through);
  std::thread::id mainThread() const { return main_thread_; }

private:
  const std::thread::id main_thread_ = std::this_thread::get_id();
  bool frozen_ = false;
  // Plain and labelled metrics of a kind count their ids separately, from 1.
  std::map<std::string, std::vector<Metric>> metrics_;
  mutable std::mutex values_mutex_;
  std::map<std::string, int64_t> values_;
  std::map<std::string, std::vector<uint64_t>> histograms_;
  raw::ModuleConfigPtr module_config_ = nullptr;
};

// One route's config.
class Route {
public:
  Route(std::string_view name, std::string_view json);
  ~Route();
  Route(const Route&) = delete;
  bool loaded() const { return route_config_ != nullptr; }
  raw::RouteConfigPtr routeConfig() const { return route_config_; }

private:
  raw::RouteConfigPtr route_config_;
};

// An answer that the module itself gave.
struct Reply {
  uint32_t code = 0;
  FieldList headers;
  std::string body;
  std::string details;
  FieldList trailers;
  bool streamed = false;
  bool complete = false;
};

// One request through the filter. The thread that makes it plays the worker.
class Stream {
public:
  explicit Stream(Config& config, const Route* route = nullptr);
  ~Stream();  // Completes and destroys what is left.
  Stream(const Stream&) = delete;

  // What the client and the upstream send. Chunks that a hook answers with StopIterationAndBuffer
  // are kept and grow the buffered body; Continue hands everything on.
  raw::HeadersAction requestHeaders(FieldList headers, bool end);
  raw::BodyAction requestBody(std::string data, bool end);
  raw::TrailersAction requestTrailers(FieldList trailers);
  raw::HeadersAction responseHeaders(FieldList headers, bool end);
  raw::BodyAction responseBody(std::string data, bool end);
  raw::TrailersAction responseTrailers(FieldList trailers);

  // Envoy or another filter answers: the local-reply hook, then the response hooks.
  raw::LocalReplyAction localReply(uint32_t code, const std::string& details);
  // The local-reply hook alone: what a test gives after it is its own affair.
  raw::LocalReplyAction announceLocalReply(uint32_t code, const std::string& details);

  void aboveHighWatermark();
  void belowLowWatermark();

  // Delivers committed events. Returns how many reached the filter.
  int runScheduled();

  // The end, as Envoy tells it: complete, then destroy. Each happens once.
  void complete();
  void destroy();

  // Ends of side requests, as for Config.
  void finishCallout(uint64_t id, raw::CalloutResult result, const FieldList& headers,
                     const std::string& body);
  void sideHeaders(uint64_t id, const FieldList& headers, bool end);
  void sideData(uint64_t id, const std::string& data, bool end);
  void sideTrailers(uint64_t id, const FieldList& trailers);
  void sideComplete(uint64_t id);
  void sideReset(uint64_t id);

  bool alive() const { return filter_ != nullptr && !destroyed_; }

  // What the module did.
  std::optional<Reply> reply;
  std::optional<std::string> reset_details;
  int continued_request = 0;
  int continued_response = 0;
  // What happens inside the call by which the module lets go what it held, as in the real Envoy:
  // the router may answer at once, and the end of an answer ends the stream (endInsideCall()). May
  // be empty.
  std::function<void()> on_continue_request;
  std::function<void()> on_continue_response;
  std::map<std::string, std::string> metadata;  // "namespace:key"; numbers and flags as text.
  std::map<std::string, std::string> filter_state;
  std::vector<std::string> custom_flags;
  std::map<std::string, std::string> span_tags;
  uint64_t buffer_limit = 1 << 20;

  // What the module sees.
  FieldList maps[4];
  bool map_exists[4] = {};
  std::string bodies[4];
  bool received_is_buffered = false;
  size_t chunk_size = 0;  // Bodies are shown in slices of this size; 0: in one.
  std::map<raw::Attribute, std::string> texts;
  std::map<raw::Attribute, uint64_t> numbers;
  std::map<raw::Attribute, bool> flags;
  // Metadata of others, by "source:namespace:key" with the source's number.
  std::map<std::string, std::string> given_metadata;
  std::map<std::string, double> given_numbers;
  std::map<std::string, bool> given_flags;
  std::string cluster_name = "upstream";
  bool traced = true;
  // Empty: the tracer does not tell.
  std::string trace_id;
  std::string span_id;

  SideRequests side;
  std::shared_ptr<EventQueue> events = std::make_shared<EventQueue>();
  Config& config;
  const Route* route;
  const Route* next_route = nullptr;  // What clearRouteCache() finds.

  // For the C functions, and for what tests let happen inside them: the live stream behind a
  // handle; fails the test when it is dead or on another thread.
  static Stream* of(raw::StreamPtr handle, const char* function);
  void localReplyOfModule();
  void endInsideCall();

private:
  raw::BodyAction body(int received, int buffered, std::string data, bool end);
  void beginHook();
  void endHook();

  const std::thread::id worker_ = std::this_thread::get_id();
  raw::FilterPtr filter_ = nullptr;
  int hooks_running_ = 0;
  bool scheduled_running_ = false;
  bool completed_ = false;
  bool destroyed_ = false;
  bool destroy_later_ = false;
};

}  // namespace idempotency::fake
