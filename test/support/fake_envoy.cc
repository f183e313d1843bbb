#include "test/support/fake_envoy.h"

#include <algorithm>
#include <new>
#include <set>
#include <strings.h>

#include "gtest/gtest.h"

namespace idempotency::fake {
namespace {

std::string text(raw::Bytes bytes) {
  return bytes.data == nullptr ? std::string() : std::string(bytes.data, bytes.size);
}

raw::Bytes bytes(const std::string& text) {
  return {text.data(), text.size()};
}

raw::Bytes bytes(std::string_view text) {
  return {text.data(), text.size()};
}

FieldList list(const raw::Field* fields, size_t count) {
  FieldList result;
  for (size_t i = 0; i < count; ++i) {
    result.emplace_back(std::string(fields[i].name, fields[i].name_size),
                        std::string(fields[i].value, fields[i].value_size));
  }
  return result;
}

std::vector<raw::Field> fields(const FieldList& list) {
  std::vector<raw::Field> result;
  for (const auto& [name, value] : list) {
    result.push_back({name.data(), name.size(), value.data(), value.size()});
  }
  return result;
}

bool sameName(const std::string& a, const std::string& b) {
  return strcasecmp(a.c_str(), b.c_str()) == 0;
}

std::set<Stream*>& liveStreams() {
  static auto* streams = new std::set<Stream*>();
  return *streams;
}
std::set<Config*>& liveConfigs() {
  static auto* configs = new std::set<Config*>();
  return *configs;
}
std::mutex& liveMutex() {
  static auto* mutex = new std::mutex();
  return *mutex;
}

}  // namespace

Process& process() {
  static auto* instance = new Process();
  return *instance;
}

void resetProcess() {
  Process& p = process();
  std::lock_guard lock(p.mutex);
  p.log.clear();
  p.log_level = raw::LogLevel::Trace;
  p.validation_mode = false;
  p.concurrency = 2;
  p.destroy_time = DestroyTime::InsideCall;
  p.secrets.clear();
  p.values.clear();
}

bool Process::logged(raw::LogLevel level, std::string_view part) {
  std::lock_guard lock(mutex);
  return std::any_of(log.begin(), log.end(), [&](const auto& line) {
    return line.first == level && line.second.find(part) != std::string::npos;
  });
}

void EventQueue::commit(uint64_t event) {
  std::lock_guard lock(mutex_);
  if (!dead_) {
    events_.push_back(event);
  }
}

bool EventQueue::take(uint64_t& event) {
  std::lock_guard lock(mutex_);
  if (events_.empty()) {
    return false;
  }
  event = events_.front();
  events_.erase(events_.begin());
  return true;
}

void EventQueue::die() {
  std::lock_guard lock(mutex_);
  dead_ = true;
  events_.clear();
}

size_t EventQueue::waiting() {
  std::lock_guard lock(mutex_);
  return events_.size();
}

raw::CalloutStart SideRequests::start(SideRequest request, uint64_t* id) {
  for (const char* required : {":method", ":path", "host"}) {
    if (std::none_of(request.headers.begin(), request.headers.end(),
                     [&](const auto& field) { return field.first == required; })) {
      return raw::CalloutStart::MissingHeader;
    }
  }
  if (std::find(clusters.begin(), clusters.end(), request.cluster) == clusters.end()) {
    return raw::CalloutStart::NoSuchCluster;
  }
  *id = request.id = next_id_++;
  live_.push_back(request.id);
  all.push_back(std::move(request));
  return raw::CalloutStart::Ok;
}

SideRequest* SideRequests::find(uint64_t id) {
  if (std::find(live_.begin(), live_.end(), id) == live_.end()) {
    return nullptr;
  }
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const SideRequest& r) { return r.id == id; });
  return found == all.end() ? nullptr : &*found;
}

void SideRequests::finish(uint64_t id) {
  live_.erase(std::remove(live_.begin(), live_.end(), id), live_.end());
}

// --- Config
// ---------------------------------------------------------------------------------------

Config::Config(std::string_view name, std::string_view json) {
  {
    std::lock_guard lock(liveMutex());
    liveConfigs().insert(this);
  }
  module_config_ =
      raw::envoy_dynamic_module_on_http_filter_config_new(this, bytes(name), bytes(json));
  frozen_ = true;
}

void Config::end() {
  if (module_config_ != nullptr) {
    raw::envoy_dynamic_module_on_http_filter_config_destroy(module_config_);
  }
  module_config_ = nullptr;
  events->die();
}

Config::~Config() {
  end();
  std::lock_guard lock(liveMutex());
  liveConfigs().erase(this);
}

uint64_t Config::counter(const std::string& name) const {
  std::lock_guard lock(values_mutex_);
  const auto found = values_.find("counter:" + name);
  return found == values_.end() ? 0 : static_cast<uint64_t>(found->second);
}

uint64_t Config::gauge(const std::string& name) const {
  std::lock_guard lock(values_mutex_);
  const auto found = values_.find("gauge:" + name);
  return found == values_.end() ? 0 : static_cast<uint64_t>(found->second);
}

std::vector<uint64_t> Config::histogram(const std::string& name) const {
  std::lock_guard lock(values_mutex_);
  const auto found = histograms_.find(name);
  return found == histograms_.end() ? std::vector<uint64_t>() : found->second;
}

raw::MetricResult Config::define(const char* kind, raw::Bytes name, const raw::Bytes* labels,
                                 size_t count, size_t* id) {
  if (frozen_) {
    return raw::MetricResult::TooLate;
  }
  Metric metric{kind, text(name), {}};
  for (size_t i = 0; i < count; ++i) {
    metric.labels.push_back(text(labels[i]));
  }
  auto& group = metrics_[std::string(kind) + (count > 0 ? ":labelled" : ":plain")];
  group.push_back(std::move(metric));
  *id = group.size();
  return raw::MetricResult::Ok;
}

raw::MetricResult Config::change(const char* kind, size_t id, const raw::Bytes* values,
                                 size_t count, int64_t delta, bool absolute, Through through) try {
  // A stream is used on its worker alone; Stream::of() sees to that.
  const bool envoy_thread =
      through == Through::Stream || std::this_thread::get_id() == main_thread_;
  if (!envoy_thread && (count > 0 || std::string_view(kind) == "histogram")) {
    ADD_FAILURE() << "labelled metric or histogram from a foreign thread: Envoy would crash";
  }
  const auto group = metrics_.find(std::string(kind) + (count > 0 ? ":labelled" : ":plain"));
  if (group == metrics_.end() || id == 0 || id > group->second.size()) {
    ADD_FAILURE() << kind << " with unknown id " << id;
    return raw::MetricResult::UnknownId;
  }
  const Metric& metric = group->second[id - 1];
  if (metric.labels.size() != count) {
    ADD_FAILURE() << metric.name << " with " << count << " labels";
    return raw::MetricResult::WrongLabelCount;
  }
  std::string name = metric.name;
  for (size_t i = 0; i < count; ++i) {
    name += "." + metric.labels[i] + "." + text(values[i]);
  }
  std::lock_guard lock(values_mutex_);
  if (metric.kind == "histogram") {
    histograms_[name].push_back(static_cast<uint64_t>(delta));
    return raw::MetricResult::Ok;
  }
  int64_t& value = values_[metric.kind + ":" + name];
  const int64_t before = value;
  value = absolute ? delta : value + delta;
  std::lock_guard process_lock(process().mutex);
  process().values[name] += value - before;
  return raw::MetricResult::Ok;
} catch (const std::bad_alloc&) {
  return raw::MetricResult::UnknownId;  // A test takes the memory away.
}

int Config::runScheduled() {
  int delivered = 0;
  for (uint64_t event = 0; events->take(event); ++delivered) {
    raw::envoy_dynamic_module_on_http_filter_config_scheduled(this, module_config_, event);
  }
  return delivered;
}

void Config::finishCallout(uint64_t id, raw::CalloutResult result, const FieldList& headers,
                           const std::string& body) {
  side.finish(id);
  const auto list = fields(headers);
  const raw::Bytes chunk = bytes(body);
  const bool success = result == raw::CalloutResult::Success;
  raw::envoy_dynamic_module_on_http_filter_config_http_callout_done(
      this, module_config_, id, result, success ? list.data() : nullptr, success ? list.size() : 0,
      success ? &chunk : nullptr, success ? 1 : 0);
}

void Config::sideHeaders(uint64_t id, const FieldList& headers, bool end) {
  const auto list = fields(headers);
  raw::envoy_dynamic_module_on_http_filter_config_http_stream_headers(
      this, module_config_, id, list.data(), list.size(), end);
}

void Config::sideData(uint64_t id, const std::string& data, bool end) {
  const raw::Bytes chunk = bytes(data);
  raw::envoy_dynamic_module_on_http_filter_config_http_stream_data(this, module_config_, id, &chunk,
                                                                   data.empty() ? 0 : 1, end);
}

void Config::sideTrailers(uint64_t id, const FieldList& trailers) {
  const auto list = fields(trailers);
  raw::envoy_dynamic_module_on_http_filter_config_http_stream_trailers(this, module_config_, id,
                                                                       list.data(), list.size());
}

void Config::sideComplete(uint64_t id) {
  side.finish(id);
  raw::envoy_dynamic_module_on_http_filter_config_http_stream_complete(this, module_config_, id);
}

void Config::sideReset(uint64_t id) {
  side.finish(id);
  raw::envoy_dynamic_module_on_http_filter_config_http_stream_reset(
      this, module_config_, id, raw::SideStreamReset::LocalReset);
}

// --- Route
// ----------------------------------------------------------------------------------------

Route::Route(std::string_view name, std::string_view json)
    : route_config_(raw::envoy_dynamic_module_on_http_filter_per_route_config_new(bytes(name),
                                                                                  bytes(json))) {}

Route::~Route() {
  if (route_config_ != nullptr) {
    raw::envoy_dynamic_module_on_http_filter_per_route_config_destroy(route_config_);
  }
}

// --- Stream
// ---------------------------------------------------------------------------------------

Stream::Stream(Config& owner, const Route* stream_route) : config(owner), route(stream_route) {
  {
    std::lock_guard lock(liveMutex());
    liveStreams().insert(this);
  }
  filter_ = raw::envoy_dynamic_module_on_http_filter_new(config.moduleConfig(), this);
  EXPECT_NE(filter_, nullptr) << "Envoy 1.39 would crash";
}

Stream::~Stream() {
  complete();
  destroy();
}

Stream* Stream::of(raw::StreamPtr handle, const char* function) {
  auto* stream = static_cast<Stream*>(handle);
  {
    std::lock_guard lock(liveMutex());
    if (!liveStreams().contains(stream)) {
      ADD_FAILURE() << function << " on a dead stream";
      return nullptr;
    }
  }
  if (std::this_thread::get_id() != stream->worker_) {
    ADD_FAILURE() << function << " on a thread that is not the stream's worker";
    return nullptr;
  }
  return stream;
}

void Stream::beginHook() {
  ++hooks_running_;
}

void Stream::endHook() {
  if (--hooks_running_ == 0 && destroy_later_) {
    destroy();
  }
}

raw::HeadersAction Stream::requestHeaders(FieldList headers, bool end) {
  maps[0] = std::move(headers);
  map_exists[0] = true;
  beginHook();
  const auto action = raw::envoy_dynamic_module_on_http_filter_request_headers(this, filter_, end);
  endHook();
  return action;
}

raw::BodyAction Stream::body(int received, int buffered, std::string data, bool end) {
  bodies[received] = std::move(data);
  beginHook();
  const auto action =
      received == 0 ? raw::envoy_dynamic_module_on_http_filter_request_body(this, filter_, end)
                    : raw::envoy_dynamic_module_on_http_filter_response_body(this, filter_, end);
  const std::string chunk = std::exchange(bodies[received], "");
  switch (action) {
    case raw::BodyAction::Continue:
      bodies[buffered].clear();
      break;
    case raw::BodyAction::StopIterationAndBuffer:
    case raw::BodyAction::StopIterationAndWatermark:
      bodies[buffered] += chunk;
      break;
    case raw::BodyAction::StopIterationNoBuffer:
      break;
  }
  endHook();
  return action;
}

raw::BodyAction Stream::requestBody(std::string data, bool end) {
  return body(0, 1, std::move(data), end);
}

raw::TrailersAction Stream::requestTrailers(FieldList trailers) {
  maps[1] = std::move(trailers);
  map_exists[1] = true;
  beginHook();
  const auto action = raw::envoy_dynamic_module_on_http_filter_request_trailers(this, filter_);
  endHook();
  return action;
}

raw::HeadersAction Stream::responseHeaders(FieldList headers, bool end) {
  maps[2] = std::move(headers);
  map_exists[2] = true;
  beginHook();
  const auto action = raw::envoy_dynamic_module_on_http_filter_response_headers(this, filter_, end);
  endHook();
  return action;
}

raw::BodyAction Stream::responseBody(std::string data, bool end) {
  return body(2, 3, std::move(data), end);
}

raw::TrailersAction Stream::responseTrailers(FieldList trailers) {
  maps[3] = std::move(trailers);
  map_exists[3] = true;
  beginHook();
  const auto action = raw::envoy_dynamic_module_on_http_filter_response_trailers(this, filter_);
  endHook();
  return action;
}

raw::LocalReplyAction Stream::announceLocalReply(uint32_t code, const std::string& details) {
  texts[raw::Attribute::ResponseCodeDetails] = details;
  numbers[raw::Attribute::ResponseCode] = code;
  beginHook();
  const auto action = raw::envoy_dynamic_module_on_http_filter_local_reply(this, filter_, code,
                                                                           bytes(details), false);
  endHook();
  return action;
}

raw::LocalReplyAction Stream::localReply(uint32_t code, const std::string& details) {
  const auto action = announceLocalReply(code, details);
  if (alive()) {
    responseHeaders({{":status", std::to_string(code)}}, true);
  }
  return action;
}

void Stream::aboveHighWatermark() {
  raw::envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(this,
                                                                                        filter_);
}

void Stream::belowLowWatermark() {
  raw::envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(this,
                                                                                       filter_);
}

int Stream::runScheduled() {
  int delivered = 0;
  for (uint64_t event = 0; alive() && events->take(event); ++delivered) {
    beginHook();
    scheduled_running_ = true;
    raw::envoy_dynamic_module_on_http_filter_scheduled(this, filter_, event);
    scheduled_running_ = false;
    endHook();
  }
  return delivered;
}

void Stream::complete() {
  if (std::exchange(completed_, true)) {
    return;
  }
  beginHook();
  raw::envoy_dynamic_module_on_http_filter_stream_complete(this, filter_);
  endHook();
}

void Stream::destroy() {
  if (std::exchange(destroyed_, true)) {
    return;
  }
  events->die();
  raw::envoy_dynamic_module_on_http_filter_destroy(filter_);
  std::lock_guard lock(liveMutex());
  liveStreams().erase(this);
}

void Stream::localReplyOfModule() {
  beginHook();
  raw::envoy_dynamic_module_on_http_filter_local_reply(this, filter_, reply->code,
                                                       bytes(reply->details), false);
  endHook();
}

void Stream::endInsideCall() {
  complete();
  if (scheduled_running_ && process().destroy_time == DestroyTime::InsideCall) {
    destroy();
  } else {
    destroy_later_ = true;
  }
}

void Stream::finishCallout(uint64_t id, raw::CalloutResult result, const FieldList& headers,
                           const std::string& body) {
  side.finish(id);
  const auto list = fields(headers);
  const raw::Bytes chunk = bytes(body);
  const bool success = result == raw::CalloutResult::Success;
  raw::envoy_dynamic_module_on_http_filter_http_callout_done(
      this, filter_, id, result, success ? list.data() : nullptr, success ? list.size() : 0,
      success ? &chunk : nullptr, success ? 1 : 0);
}

void Stream::sideHeaders(uint64_t id, const FieldList& headers, bool end) {
  const auto list = fields(headers);
  raw::envoy_dynamic_module_on_http_filter_http_stream_headers(this, filter_, id, list.data(),
                                                               list.size(), end);
}

void Stream::sideData(uint64_t id, const std::string& data, bool end) {
  const raw::Bytes chunk = bytes(data);
  raw::envoy_dynamic_module_on_http_filter_http_stream_data(this, filter_, id, &chunk,
                                                            data.empty() ? 0 : 1, end);
}

void Stream::sideTrailers(uint64_t id, const FieldList& trailers) {
  const auto list = fields(trailers);
  raw::envoy_dynamic_module_on_http_filter_http_stream_trailers(this, filter_, id, list.data(),
                                                                list.size());
}

void Stream::sideComplete(uint64_t id) {
  side.finish(id);
  raw::envoy_dynamic_module_on_http_filter_http_stream_complete(this, filter_, id);
}

void Stream::sideReset(uint64_t id) {
  side.finish(id);
  raw::envoy_dynamic_module_on_http_filter_http_stream_reset(this, filter_, id,
                                                             raw::SideStreamReset::LocalReset);
}

namespace {

Config* configOf(raw::ConfigPtr handle, const char* function) {
  std::lock_guard lock(liveMutex());
  auto* config = static_cast<Config*>(handle);
  if (!liveConfigs().contains(config)) {
    ADD_FAILURE() << function << " on a dead config";
    return nullptr;
  }
  return config;
}

size_t index(raw::HeaderMap map) {
  return static_cast<size_t>(map);
}
size_t index(raw::BodyKind kind) {
  return static_cast<size_t>(kind);
}

// The slices in which a body is shown.
std::vector<raw::Bytes> slices(const Stream& stream, raw::BodyKind kind) {
  const std::string& body = stream.bodies[index(kind)];
  const size_t step = stream.chunk_size == 0 ? body.size() : stream.chunk_size;
  std::vector<raw::Bytes> result;
  for (size_t at = 0; at < body.size(); at += step) {
    result.push_back({body.data() + at, std::min(step, body.size() - at)});
  }
  return result;
}

bool found(const std::map<std::string, std::string>& map, const std::string& key,
           raw::Bytes* value) {
  const auto entry = map.find(key);
  if (entry == map.end()) {
    return false;
  }
  *value = bytes(entry->second);
  return true;
}

// Like Envoy, until the next call on this thread.
bool told(const std::string& id, raw::Bytes* value) {
  static thread_local std::string last;
  last = id;
  *value = bytes(last);
  return !last.empty();
}

std::string metadataKey(raw::MetadataSource source, raw::Bytes ns, raw::Bytes key) {
  return std::to_string(static_cast<unsigned>(source)) + ":" + text(ns) + ":" + text(key);
}

SideRequest sideRequest(raw::Bytes cluster, const raw::Field* headers, size_t count,
                        raw::Bytes body, bool stream, bool end, uint64_t timeout_ms) {
  SideRequest request;
  request.cluster = text(cluster);
  request.headers = list(headers, count);
  request.body = text(body);
  request.stream = stream;
  request.ended = end;
  request.timeout_ms = timeout_ms;
  return request;
}

bool sendData(SideRequests& side, uint64_t id, raw::Bytes data, bool end) {
  SideRequest* request = side.find(id);
  if (request == nullptr || request->ended) {
    return false;
  }
  request->body += text(data);
  request->ended = end;
  return true;
}

bool sendTrailers(SideRequests& side, uint64_t id, const raw::Field* trailers, size_t count) {
  SideRequest* request = side.find(id);
  if (request == nullptr || request->ended) {
    return false;
  }
  request->trailers = list(trailers, count);
  request->ended = true;
  return true;
}

struct FakeScheduler {
  std::shared_ptr<EventQueue> events;
};

}  // namespace
}  // namespace idempotency::fake

// --- The C functions
// ------------------------------------------------------------------------------

namespace idempotency::envoy::raw {

using fake::Stream;

// Leaves the function, with a result if given, when the handle is dead or the thread is wrong.
#define LIVE_STREAM(...)                                                    \
  Stream* const s = Stream::of(stream, static_cast<const char*>(__func__)); \
  if (s == nullptr) {                                                       \
    return __VA_ARGS__;                                                     \
  }
#define LIVE_CONFIG(...)                                                              \
  fake::Config* const c = fake::configOf(config, static_cast<const char*>(__func__)); \
  if (c == nullptr) {                                                                 \
    return __VA_ARGS__;                                                               \
  }

extern "C" {

void envoy_dynamic_module_callback_log(LogLevel level, Bytes message) {
  std::lock_guard lock(fake::process().mutex);
  try {
    fake::process().log.emplace_back(level, fake::text(message));
  } catch (const std::bad_alloc&) {
    // A test takes the memory away; Envoy itself would end here.
  }
}

bool envoy_dynamic_module_callback_log_enabled(LogLevel level) {
  std::lock_guard lock(fake::process().mutex);
  return level >= fake::process().log_level;
}

bool envoy_dynamic_module_callback_is_validation_mode() {
  return fake::process().validation_mode;
}

uint32_t envoy_dynamic_module_callback_get_concurrency() {
  return fake::process().concurrency;
}

bool envoy_dynamic_module_callback_http_get_header(StreamPtr stream, HeaderMap map, Bytes key,
                                                   Bytes* value, size_t index, size_t* total) {
  LIVE_STREAM(false)
  size_t seen = 0;
  bool found = false;
  for (const auto& [name, text] : s->maps[fake::index(map)]) {
    if (!fake::sameName(name, fake::text(key))) {
      continue;
    }
    if (seen++ == index) {
      *value = fake::bytes(text);
      found = true;
    }
  }
  if (total != nullptr) {
    *total = seen;
  }
  return found;
}

size_t envoy_dynamic_module_callback_http_get_headers_size(StreamPtr stream, HeaderMap map) {
  LIVE_STREAM(0)
  return s->maps[fake::index(map)].size();
}

bool envoy_dynamic_module_callback_http_get_headers(StreamPtr stream, HeaderMap map, Field* out) {
  LIVE_STREAM(false)
  const auto list = fake::fields(s->maps[fake::index(map)]);
  std::copy(list.begin(), list.end(), out);
  return s->map_exists[fake::index(map)];
}

bool envoy_dynamic_module_callback_http_add_header(StreamPtr stream, HeaderMap map, Bytes key,
                                                   Bytes value) {
  LIVE_STREAM(false)
  if (!s->map_exists[fake::index(map)] || value.size == 0) {
    return false;
  }
  s->maps[fake::index(map)].emplace_back(fake::text(key), fake::text(value));
  return true;
}

bool envoy_dynamic_module_callback_http_set_header(StreamPtr stream, HeaderMap map, Bytes key,
                                                   Bytes value) {
  LIVE_STREAM(false)
  if (!s->map_exists[fake::index(map)]) {
    return false;
  }
  auto& list = s->maps[fake::index(map)];
  std::erase_if(list,
                [&](const auto& field) { return fake::sameName(field.first, fake::text(key)); });
  if (value.size > 0) {
    list.emplace_back(fake::text(key), fake::text(value));
  }
  return true;
}

size_t envoy_dynamic_module_callback_http_get_body_size(StreamPtr stream, BodyKind kind) {
  LIVE_STREAM(0)
  return s->bodies[fake::index(kind)].size();
}

size_t envoy_dynamic_module_callback_http_get_body_chunks_size(StreamPtr stream, BodyKind kind) {
  LIVE_STREAM(0)
  return fake::slices(*s, kind).size();
}

bool envoy_dynamic_module_callback_http_get_body_chunks(StreamPtr stream, BodyKind kind,
                                                        Bytes* out) {
  LIVE_STREAM(false)
  const auto slices = fake::slices(*s, kind);
  std::copy(slices.begin(), slices.end(), out);
  return true;
}

bool envoy_dynamic_module_callback_http_append_body(StreamPtr stream, BodyKind kind, Bytes data) {
  LIVE_STREAM(false)
  s->bodies[fake::index(kind)] += fake::text(data);
  return true;
}

bool envoy_dynamic_module_callback_http_drain_body(StreamPtr stream, BodyKind kind, size_t bytes) {
  LIVE_STREAM(false)
  std::string& body = s->bodies[fake::index(kind)];
  body.erase(0, std::min(bytes, body.size()));
  return true;
}

bool envoy_dynamic_module_callback_http_received_buffered_request_body(StreamPtr stream) {
  LIVE_STREAM(false)
  return s->received_is_buffered;
}

bool envoy_dynamic_module_callback_http_received_buffered_response_body(StreamPtr stream) {
  LIVE_STREAM(false)
  return s->received_is_buffered;
}

uint64_t envoy_dynamic_module_callback_http_get_buffer_limit(StreamPtr stream) {
  LIVE_STREAM(0)
  return s->buffer_limit;
}

void envoy_dynamic_module_callback_http_set_buffer_limit(StreamPtr stream, uint64_t limit) {
  LIVE_STREAM()
  s->buffer_limit = limit;
}

void envoy_dynamic_module_callback_http_filter_continue_decoding(StreamPtr stream) {
  LIVE_STREAM()
  ++s->continued_request;
  if (s->on_continue_request) {
    s->on_continue_request();
  }
}

void envoy_dynamic_module_callback_http_filter_continue_encoding(StreamPtr stream) {
  LIVE_STREAM()
  ++s->continued_response;
  if (s->on_continue_response) {
    s->on_continue_response();
  }
}

void envoy_dynamic_module_callback_http_send_response(StreamPtr stream, uint32_t code,
                                                      const Field* headers, size_t count,
                                                      Bytes body, Bytes details) {
  LIVE_STREAM()
  if (s->reply.has_value()) {
    ADD_FAILURE() << "a second reply on one stream";
    return;
  }
  s->reply = fake::Reply{code, fake::list(headers, count), fake::text(body), fake::text(details),
                         {},   /*streamed=*/false,         /*complete=*/true};
  // Envoy tells every filter of the reply, the one that sent it too, and skips its response hooks.
  s->localReplyOfModule();
  s->endInsideCall();
}

void envoy_dynamic_module_callback_http_send_response_headers(StreamPtr stream,
                                                              const Field* headers, size_t count,
                                                              bool end) {
  LIVE_STREAM()
  fake::Reply reply;
  reply.headers = fake::list(headers, count);
  reply.streamed = true;
  reply.complete = end;
  for (const auto& [name, value] : reply.headers) {
    if (name == ":status") {
      reply.code = static_cast<uint32_t>(std::stoul(value));
    }
  }
  if (reply.code == 0) {
    ADD_FAILURE() << "a streamed reply without :status";
  }
  s->reply = std::move(reply);
  if (end) {
    s->endInsideCall();
  }
}

void envoy_dynamic_module_callback_http_send_response_data(StreamPtr stream, Bytes data, bool end) {
  LIVE_STREAM()
  if (!s->reply.has_value() || s->reply->complete) {
    ADD_FAILURE() << "response data without headers, or after the end";
    return;
  }
  s->reply->body += fake::text(data);
  s->reply->complete = end;
  if (end) {
    s->endInsideCall();
  }
}

void envoy_dynamic_module_callback_http_send_response_trailers(StreamPtr stream,
                                                               const Field* trailers,
                                                               size_t count) {
  LIVE_STREAM()
  const size_t map = static_cast<size_t>(HeaderMap::ResponseTrailers);
  if (!s->reply.has_value() && s->map_exists[static_cast<size_t>(HeaderMap::Response)]) {
    // A response is held. In Envoy these end it, and what was held goes on.
    if (s->map_exists[map]) {
      ADD_FAILURE() << "the response has trailers already";
    }
    s->maps[map] = fake::list(trailers, count);
    s->map_exists[map] = true;
    envoy_dynamic_module_callback_http_filter_continue_encoding(stream);
    return;
  }
  if (!s->reply.has_value() || s->reply->complete) {
    ADD_FAILURE() << "response trailers without headers, or after the end";
    return;
  }
  s->reply->trailers = fake::list(trailers, count);
  s->reply->complete = true;
  s->endInsideCall();
}

void envoy_dynamic_module_callback_http_filter_reset_stream(StreamPtr stream, StreamReset,
                                                            Bytes details) {
  LIVE_STREAM()
  s->reset_details = fake::text(details);
  s->endInsideCall();
}

void envoy_dynamic_module_callback_http_clear_route_cache(StreamPtr stream) {
  LIVE_STREAM()
  s->route = s->next_route;
}

void* envoy_dynamic_module_callback_http_filter_scheduler_new(StreamPtr stream) {
  LIVE_STREAM(nullptr)
  return new fake::FakeScheduler{s->events};
}

void envoy_dynamic_module_callback_http_filter_scheduler_commit(void* scheduler, uint64_t event) {
  static_cast<fake::FakeScheduler*>(scheduler)->events->commit(event);
}

void envoy_dynamic_module_callback_http_filter_scheduler_delete(void* scheduler) {
  delete static_cast<fake::FakeScheduler*>(scheduler);
}

void* envoy_dynamic_module_callback_http_filter_config_scheduler_new(ConfigPtr config) {
  LIVE_CONFIG(nullptr)
  return new fake::FakeScheduler{c->events};
}

void envoy_dynamic_module_callback_http_filter_config_scheduler_commit(void* scheduler,
                                                                       uint64_t event) {
  static_cast<fake::FakeScheduler*>(scheduler)->events->commit(event);
}

void envoy_dynamic_module_callback_http_filter_config_scheduler_delete(void* scheduler) {
  delete static_cast<fake::FakeScheduler*>(scheduler);
}

bool envoy_dynamic_module_callback_http_filter_get_attribute_string(StreamPtr stream,
                                                                    Attribute attribute,
                                                                    Bytes* value) {
  LIVE_STREAM(false)
  const auto found = s->texts.find(attribute);
  if (found == s->texts.end()) {
    return false;
  }
  *value = fake::bytes(found->second);
  return true;
}

bool envoy_dynamic_module_callback_http_filter_get_attribute_int(StreamPtr stream,
                                                                 Attribute attribute,
                                                                 uint64_t* value) {
  LIVE_STREAM(false)
  const auto found = s->numbers.find(attribute);
  if (found == s->numbers.end()) {
    return false;
  }
  *value = found->second;
  return true;
}

bool envoy_dynamic_module_callback_http_filter_get_attribute_bool(StreamPtr stream,
                                                                  Attribute attribute,
                                                                  bool* value) {
  LIVE_STREAM(false)
  const auto found = s->flags.find(attribute);
  if (found == s->flags.end()) {
    return false;
  }
  *value = found->second;
  return true;
}

bool envoy_dynamic_module_callback_http_get_cluster_name(StreamPtr stream, Bytes* value) {
  LIVE_STREAM(false)
  *value = fake::bytes(s->cluster_name);
  return !s->cluster_name.empty();
}

uint32_t envoy_dynamic_module_callback_http_filter_get_worker_index(StreamPtr stream) {
  LIVE_STREAM(0)
  return 0;
}

const void* envoy_dynamic_module_callback_get_most_specific_route_config(StreamPtr stream) {
  LIVE_STREAM(nullptr)
  return s->route == nullptr ? nullptr : s->route->routeConfig();
}

void envoy_dynamic_module_callback_http_set_dynamic_metadata_string(StreamPtr stream, Bytes ns,
                                                                    Bytes key, Bytes value) {
  LIVE_STREAM()
  s->metadata[fake::text(ns) + ":" + fake::text(key)] = fake::text(value);
}

void envoy_dynamic_module_callback_http_set_dynamic_metadata_string_batch(StreamPtr stream,
                                                                          Bytes ns,
                                                                          const Field* entries,
                                                                          size_t count) {
  LIVE_STREAM()
  for (size_t i = 0; i < count; ++i) {
    const std::string key(entries[i].name, entries[i].name_size);
    s->metadata[fake::text(ns) + ":" + key] = std::string(entries[i].value, entries[i].value_size);
  }
}

void envoy_dynamic_module_callback_http_set_dynamic_metadata_number(StreamPtr stream, Bytes ns,
                                                                    Bytes key, double value) {
  LIVE_STREAM()
  s->metadata[fake::text(ns) + ":" + fake::text(key)] = std::to_string(value);
}

void envoy_dynamic_module_callback_http_set_dynamic_metadata_bool(StreamPtr stream, Bytes ns,
                                                                  Bytes key, bool value) {
  LIVE_STREAM()
  s->metadata[fake::text(ns) + ":" + fake::text(key)] = value ? "true" : "false";
}

bool envoy_dynamic_module_callback_http_get_metadata_string(StreamPtr stream, MetadataSource source,
                                                            Bytes ns, Bytes key, Bytes* value) {
  LIVE_STREAM(false)
  return fake::found(s->given_metadata, fake::metadataKey(source, ns, key), value);
}

bool envoy_dynamic_module_callback_http_get_metadata_number(StreamPtr stream, MetadataSource source,
                                                            Bytes ns, Bytes key, double* value) {
  LIVE_STREAM(false)
  const auto found = s->given_numbers.find(fake::metadataKey(source, ns, key));
  if (found == s->given_numbers.end()) {
    return false;
  }
  *value = found->second;
  return true;
}

bool envoy_dynamic_module_callback_http_get_metadata_bool(StreamPtr stream, MetadataSource source,
                                                          Bytes ns, Bytes key, bool* value) {
  LIVE_STREAM(false)
  const auto found = s->given_flags.find(fake::metadataKey(source, ns, key));
  if (found == s->given_flags.end()) {
    return false;
  }
  *value = found->second;
  return true;
}

bool envoy_dynamic_module_callback_http_set_filter_state_bytes(StreamPtr stream, Bytes key,
                                                               Bytes value) {
  LIVE_STREAM(false)
  s->filter_state[fake::text(key)] = fake::text(value);
  return true;
}

bool envoy_dynamic_module_callback_http_get_filter_state_bytes(StreamPtr stream, Bytes key,
                                                               Bytes* value) {
  LIVE_STREAM(false)
  return fake::found(s->filter_state, fake::text(key), value);
}

void envoy_dynamic_module_callback_http_add_custom_flag(StreamPtr stream, Bytes flag) {
  LIVE_STREAM()
  s->custom_flags.push_back(fake::text(flag));
}

void* envoy_dynamic_module_callback_http_get_active_span(StreamPtr stream) {
  LIVE_STREAM(nullptr)
  return s->traced ? s : nullptr;
}

void envoy_dynamic_module_callback_http_span_set_tag(void* span, Bytes key, Bytes value) {
  static_cast<Stream*>(span)->span_tags[fake::text(key)] = fake::text(value);
}

bool envoy_dynamic_module_callback_http_span_get_trace_id(void* span, Bytes* value) {
  return fake::told(static_cast<Stream*>(span)->trace_id, value);
}

bool envoy_dynamic_module_callback_http_span_get_span_id(void* span, Bytes* value) {
  return fake::told(static_cast<Stream*>(span)->span_id, value);
}

MetricResult envoy_dynamic_module_callback_http_filter_config_define_counter(
    ConfigPtr config, Bytes name, const Bytes* labels, size_t count, size_t* id) {
  LIVE_CONFIG(MetricResult::TooLate)
  return c->define("counter", name, labels, count, id);
}

MetricResult envoy_dynamic_module_callback_http_filter_config_define_gauge(
    ConfigPtr config, Bytes name, const Bytes* labels, size_t count, size_t* id) {
  LIVE_CONFIG(MetricResult::TooLate)
  return c->define("gauge", name, labels, count, id);
}

MetricResult envoy_dynamic_module_callback_http_filter_config_define_histogram(
    ConfigPtr config, Bytes name, const Bytes* labels, size_t count, size_t* id) {
  LIVE_CONFIG(MetricResult::TooLate)
  return c->define("histogram", name, labels, count, id);
}

// The five changes of a metric, through a stream and through a config.
#define METRIC_CHANGE(name, kind, delta, absolute)                                                \
  MetricResult envoy_dynamic_module_callback_http_filter_##name(                                  \
      StreamPtr stream, size_t id, const Bytes* labels, size_t count, uint64_t value) {           \
    LIVE_STREAM(MetricResult::UnknownId)                                                          \
    return s->config.change(kind, id, labels, count, delta static_cast<int64_t>(value), absolute, \
                            fake::Config::Through::Stream);                                       \
  }                                                                                               \
  MetricResult envoy_dynamic_module_callback_http_filter_config_##name(                           \
      ConfigPtr config, size_t id, const Bytes* labels, size_t count, uint64_t value) {           \
    LIVE_CONFIG(MetricResult::UnknownId)                                                          \
    return c->change(kind, id, labels, count, delta static_cast<int64_t>(value), absolute,        \
                     fake::Config::Through::Config);                                              \
  }

METRIC_CHANGE(increment_counter, "counter", +, false)
METRIC_CHANGE(increment_gauge, "gauge", +, false)
METRIC_CHANGE(decrement_gauge, "gauge", -, false)
METRIC_CHANGE(set_gauge, "gauge", +, true)
METRIC_CHANGE(record_histogram_value, "histogram", +, true)

CalloutStart envoy_dynamic_module_callback_http_filter_http_callout(StreamPtr stream, uint64_t* id,
                                                                    Bytes cluster,
                                                                    const Field* headers,
                                                                    size_t count, Bytes body,
                                                                    uint64_t timeout_ms) {
  LIVE_STREAM(CalloutStart::CannotCreate)
  return s->side.start(fake::sideRequest(cluster, headers, count, body, false, true, timeout_ms),
                       id);
}

CalloutStart envoy_dynamic_module_callback_http_filter_start_http_stream(
    StreamPtr stream, uint64_t* id, Bytes cluster, const Field* headers, size_t count, Bytes body,
    bool end, uint64_t timeout_ms) {
  LIVE_STREAM(CalloutStart::CannotCreate)
  return s->side.start(fake::sideRequest(cluster, headers, count, body, true, end, timeout_ms), id);
}

bool envoy_dynamic_module_callback_http_stream_send_data(StreamPtr stream, uint64_t id, Bytes data,
                                                         bool end) {
  LIVE_STREAM(false)
  return fake::sendData(s->side, id, data, end);
}

bool envoy_dynamic_module_callback_http_stream_send_trailers(StreamPtr stream, uint64_t id,
                                                             const Field* trailers, size_t count) {
  LIVE_STREAM(false)
  return fake::sendTrailers(s->side, id, trailers, count);
}

void envoy_dynamic_module_callback_http_filter_reset_http_stream(StreamPtr stream, uint64_t id) {
  LIVE_STREAM()
  if (fake::SideRequest* request = s->side.find(id)) {
    request->reset = true;
    s->sideReset(id);
  }
}

CalloutStart envoy_dynamic_module_callback_http_filter_config_http_callout(
    ConfigPtr config, uint64_t* id, Bytes cluster, const Field* headers, size_t count, Bytes body,
    uint64_t timeout_ms) {
  LIVE_CONFIG(CalloutStart::CannotCreate)
  return c->side.start(fake::sideRequest(cluster, headers, count, body, false, true, timeout_ms),
                       id);
}

CalloutStart envoy_dynamic_module_callback_http_filter_config_start_http_stream(
    ConfigPtr config, uint64_t* id, Bytes cluster, const Field* headers, size_t count, Bytes body,
    bool end, uint64_t timeout_ms) {
  LIVE_CONFIG(CalloutStart::CannotCreate)
  return c->side.start(fake::sideRequest(cluster, headers, count, body, true, end, timeout_ms), id);
}

bool envoy_dynamic_module_callback_http_filter_config_stream_send_data(ConfigPtr config,
                                                                       uint64_t id, Bytes data,
                                                                       bool end) {
  LIVE_CONFIG(false)
  return fake::sendData(c->side, id, data, end);
}

bool envoy_dynamic_module_callback_http_filter_config_stream_send_trailers(ConfigPtr config,
                                                                           uint64_t id,
                                                                           const Field* trailers,
                                                                           size_t count) {
  LIVE_CONFIG(false)
  return fake::sendTrailers(c->side, id, trailers, count);
}

void envoy_dynamic_module_callback_http_filter_config_reset_http_stream(ConfigPtr config,
                                                                        uint64_t id) {
  LIVE_CONFIG()
  if (fake::SideRequest* request = c->side.find(id)) {
    request->reset = true;
    c->sideReset(id);
  }
}

}  // extern "C"

}  // namespace idempotency::envoy::raw
