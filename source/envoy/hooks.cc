// The functions that Envoy calls: unpack, guard, delegate. No exception may leave them, so every
// hook that runs code of the module goes through one of the guards below.
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "source/envoy/filter.h"
#include "source/envoy/process.h"
#include "source/envoy/raw.h"

namespace idempotency::envoy {

// Runs `work` and returns its result. If it throws, calls `refuse` with the reason and returns its
// result.
template <class Work, class Refuse>
auto guarded(Work&& work, Refuse&& refuse) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return refuse(error.what());
  } catch (...) {
    return refuse("not a std::exception");
  }
}

void logException(const char* hook, const char* what) noexcept {
  try {
    log(LogLevel::Error, std::string("idempotency: exception in ") + hook + ": " + what);
  } catch (...) {
    log(LogLevel::Error, "idempotency: exception in a hook; out of memory");
  }
}

// Owns the module's config on behalf of Envoy.
class ConfigHolder {
public:
  ConfigHolder(ConfigHandle handle, Counter hook_exception, std::unique_ptr<FilterFactory> config)
      : handle_(handle), hook_exception_(hook_exception), config_(std::move(config)) {}

  // Null if the counter or the config could not be created; the reason was logged.
  static std::unique_ptr<ConfigHolder> create(ConfigHandle handle, std::string_view name,
                                              std::string_view json) {
    const auto hook_exception = handle.defineCounter("hook_exception");
    if (!hook_exception.has_value()) {
      log(LogLevel::Error, "idempotency: cannot define the counter hook_exception");
      return nullptr;
    }
    auto config = createFilterFactory(handle, name, json);
    if (config == nullptr) {
      return nullptr;
    }
    return std::make_unique<ConfigHolder>(handle, *hook_exception, std::move(config));
  }

  Counter hookException() const { return hook_exception_; }
  FilterFactory& config() const { return *config_; }

  // Runs a hook of the config. An exception is logged and counted; there is no request to refuse.
  template <class Work>
  void run(const char* hook, Work&& work) const noexcept {
    guarded(std::forward<Work>(work), [&](const char* what) {
      logException(hook, what);
      handle_.increment(hook_exception_);
    });
  }

  void drainMailbox() const {
    if (const std::shared_ptr<Mailbox> mailbox = config_->mailbox_) {
      mailbox->drain();
    }
  }

private:
  const ConfigHandle handle_;
  const Counter hook_exception_;
  const std::unique_ptr<FilterFactory> config_;
};

void sendInternalError(Stream stream) {
  const Field content_type("content-type", "text/plain");
  stream.sendLocalReply(500, std::span(&content_type, 1), "idempotency: internal error\n",
                        "idempotency_internal_error");
}

// Replaces a filter that could not be created: every request that reaches it is refused.
class RefusingFilter : public Filter {
public:
  using Filter::Filter;
  HeadersAction onRequestHeaders(bool) override {
    sendInternalError(stream());
    return HeadersAction::StopIteration;
  }
};

// What to do about an exception besides logging and counting it.
enum class OnThrow : uint8_t {
  Refuse,  // Answer 500. If a response has already begun, Envoy resets the stream.
  Note,    // Nothing: no reply may be sent from this hook.
};

// Owns one stream's filter on behalf of Envoy. All on the stream's worker.
class StreamHolder {
public:
  StreamHolder(const ConfigHolder& config, raw::StreamPtr handle)
      : config_(config), stream_(handle, &body_hooks_) {
    guarded([&] { filter_ = config_.config().createFilter(stream_); },
            [&](const char* what) { note("http_filter_new", what); });
    if (filter_ == nullptr) {
      filter_ = std::make_unique<RefusingFilter>(stream_);
      failed_ = false;
    }
  }

  // Runs a hook. If it throws, returns `refusal`; after that, no hook runs except onStreamComplete,
  // and the result is `once_failed`. Envoy may destroy the stream while the hook runs; the filter
  // and this holder are deleted when the outermost hook returns, so the caller touches neither
  // after run().
  template <class Result, class Work>
  Result run(const char* hook, OnThrow on_throw, Result refusal, Result once_failed,
             Work&& work) noexcept {
    ++depth_;
    Result result = once_failed;
    if (!failed_) {
      result = guarded([&] { return work(*filter_); },
                       [&](const char* what) {
                         note(hook, what);
                         if (on_throw == OnThrow::Refuse && !destroyed_) {
                           sendInternalError(stream_);
                         }
                         return refusal;
                       });
    }
    leave();
    return result;
  }

  // The stream has ended. No more tasks run, although Envoy 1.40 keeps the stream until the
  // surrounding hook returns.
  void complete() noexcept {
    ++depth_;
    guarded([&] { filter_->onStreamComplete(); },
            [&](const char* what) { note("stream_complete", what); });
    filter_->closeMailbox();
    leave();
  }

  // Envoy releases the stream.
  void destroy() noexcept {
    ++depth_;
    destroyed_ = true;
    filter_->closeMailbox();
    leave();
  }

  // Runs `work`, and marks this body hook as being on the stack meanwhile.
  template <class Work>
  auto inBodyHook(bool BodyHooks::*hook, Work&& work) {
    struct Mark {
      explicit Mark(bool& running) : running_(running), before_(std::exchange(running, true)) {}
      ~Mark() { running_ = before_; }
      bool& running_;
      const bool before_;
    };
    const Mark mark(body_hooks_.*hook);
    return work();
  }

  static void drainMailbox(Filter& filter) {
    if (const std::shared_ptr<Mailbox> mailbox = filter.mailbox_) {
      mailbox->drain();
    }
  }

private:
  ~StreamHolder() = default;

  void leave() {
    if (--depth_ == 0 && destroyed_) {
      delete this;
    }
  }

  void note(const char* hook, const char* what) {
    failed_ = true;
    logException(hook, what);
    if (!destroyed_) {
      stream_.increment(config_.hookException());
    }
  }

  const ConfigHolder& config_;  // Envoy keeps it longer than its streams.
  BodyHooks body_hooks_;        // The filter's Stream points here.
  const Stream stream_;
  std::unique_ptr<Filter> filter_;  // Never null.
  int depth_ = 0;                   // Hooks of this stream on the stack: they nest.
  bool destroyed_ = false;          // Envoy's side of the stream is gone.
  bool failed_ = false;             // A hook threw: the filter's state can no longer be trusted.
};

namespace {

const ConfigHolder& configHolder(raw::ModuleConfigPtr config) {
  return *static_cast<const ConfigHolder*>(config);
}

StreamHolder& streamHolder(raw::FilterPtr filter) {
  return *static_cast<StreamHolder*>(const_cast<void*>(filter));
}

std::span<const Field> fields(const raw::Field* first, size_t count) {
  return {static_cast<const Field*>(first), first == nullptr ? 0 : count};
}

std::span<const raw::Bytes> chunks(const raw::Bytes* first, size_t count) {
  return {first, first == nullptr ? 0 : count};
}

// A request hook: a request whose filter has failed never continues.
template <class Action, class Work>
Action onRequest(raw::FilterPtr filter, const char* hook, Action stop, Work&& work) noexcept {
  return streamHolder(filter).run(hook, OnThrow::Refuse, stop, stop, std::forward<Work>(work));
}

// A response hook. Our own refusal never passes through it. What passes through it after a failure
// is the local reply of Envoy or of another filter, and must not be held forever.
template <class Action, class Work>
Action onResponse(raw::FilterPtr filter, const char* hook, Action stop, Work&& work) noexcept {
  return streamHolder(filter).run(hook, OnThrow::Refuse, stop, Action::Continue,
                                  std::forward<Work>(work));
}

// A hook of a stream that returns nothing.
template <class Work>
void tell(raw::FilterPtr filter, const char* hook, Work&& work) noexcept {
  streamHolder(filter).run(hook, OnThrow::Refuse, false, false, [&](Filter& f) {
    work(f);
    return true;
  });
}

}  // namespace

namespace raw {

extern "C" {

const char* envoy_dynamic_module_on_program_init() {
  // Envoy compares this with its own version of the interface and warns if they differ.
  return isEnvoy140() ? "v0.2.0" : "v0.1.0";
}

ModuleConfigPtr envoy_dynamic_module_on_http_filter_config_new(ConfigPtr config, Bytes name,
                                                               Bytes json) {
  return guarded(
      [&]() -> const ConfigHolder* {
        return ConfigHolder::create(ConfigHandle(config), toView(name), toView(json)).release();
      },
      [](const char* what) -> const ConfigHolder* {
        logException("http_filter_config_new", what);
        return nullptr;
      });
}

void envoy_dynamic_module_on_http_filter_config_destroy(ModuleConfigPtr module_config) {
  delete static_cast<const ConfigHolder*>(module_config);
}

RouteConfigPtr envoy_dynamic_module_on_http_filter_per_route_config_new(Bytes name, Bytes json) {
  return guarded(
      [&]() -> const RouteConfig* {
        return createRouteConfig(toView(name), toView(json)).release();
      },
      [](const char* what) -> const RouteConfig* {
        logException("http_filter_per_route_config_new", what);
        return nullptr;
      });
}

void envoy_dynamic_module_on_http_filter_per_route_config_destroy(RouteConfigPtr route_config) {
  delete static_cast<const RouteConfig*>(route_config);
}

// Never null: Envoy 1.39 would crash.
FilterPtr envoy_dynamic_module_on_http_filter_new(ModuleConfigPtr module_config, StreamPtr stream) {
  return new StreamHolder(configHolder(module_config), stream);
}

HeadersAction envoy_dynamic_module_on_http_filter_request_headers(StreamPtr, FilterPtr filter,
                                                                  bool end) {
  return onRequest(filter, "request_headers", HeadersAction::StopIteration,
                   [&](Filter& f) { return f.onRequestHeaders(end); });
}

BodyAction envoy_dynamic_module_on_http_filter_request_body(StreamPtr, FilterPtr filter, bool end) {
  return onRequest(filter, "request_body", BodyAction::StopIterationNoBuffer, [&](Filter& f) {
    return streamHolder(filter).inBodyHook(&BodyHooks::request,
                                           [&] { return f.onRequestBody(end); });
  });
}

TrailersAction envoy_dynamic_module_on_http_filter_request_trailers(StreamPtr, FilterPtr filter) {
  return onRequest(filter, "request_trailers", TrailersAction::StopIteration,
                   [&](Filter& f) { return f.onRequestTrailers(); });
}

HeadersAction envoy_dynamic_module_on_http_filter_response_headers(StreamPtr, FilterPtr filter,
                                                                   bool end) {
  return onResponse(filter, "response_headers", HeadersAction::StopIteration,
                    [&](Filter& f) { return f.onResponseHeaders(end); });
}

BodyAction envoy_dynamic_module_on_http_filter_response_body(StreamPtr, FilterPtr filter,
                                                             bool end) {
  return onResponse(filter, "response_body", BodyAction::StopIterationNoBuffer, [&](Filter& f) {
    return streamHolder(filter).inBodyHook(&BodyHooks::response,
                                           [&] { return f.onResponseBody(end); });
  });
}

TrailersAction envoy_dynamic_module_on_http_filter_response_trailers(StreamPtr, FilterPtr filter) {
  return onResponse(filter, "response_trailers", TrailersAction::StopIteration,
                    [&](Filter& f) { return f.onResponseTrailers(); });
}

LocalReplyAction envoy_dynamic_module_on_http_filter_local_reply(StreamPtr, FilterPtr filter,
                                                                 uint32_t code, Bytes details,
                                                                 bool reset_imminent) {
  return streamHolder(filter).run(
      "local_reply", OnThrow::Note, LocalReplyAction::Continue, LocalReplyAction::Continue,
      [&](Filter& f) { return f.onLocalReply(code, toView(details), reset_imminent); });
}

void envoy_dynamic_module_on_http_filter_stream_complete(StreamPtr, FilterPtr filter) {
  streamHolder(filter).complete();
}

void envoy_dynamic_module_on_http_filter_destroy(FilterPtr filter) {
  streamHolder(filter).destroy();
}

void envoy_dynamic_module_on_http_filter_scheduled(StreamPtr, FilterPtr filter, uint64_t) {
  tell(filter, "scheduled", StreamHolder::drainMailbox);
}

void envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(
    StreamPtr, FilterPtr filter) {
  tell(filter, "above_high_watermark", [](Filter& f) { f.onDownstreamAboveHighWatermark(); });
}

void envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(
    StreamPtr, FilterPtr filter) {
  tell(filter, "below_low_watermark", [](Filter& f) { f.onDownstreamBelowLowWatermark(); });
}

void envoy_dynamic_module_on_http_filter_http_callout_done(StreamPtr, FilterPtr filter, uint64_t id,
                                                           CalloutResult result,
                                                           const Field* headers,
                                                           size_t header_count, const Bytes* body,
                                                           size_t chunk_count) {
  tell(filter, "http_callout_done", [&](Filter& f) {
    f.onCalloutDone(id, result, fields(headers, header_count), chunks(body, chunk_count));
  });
}

void envoy_dynamic_module_on_http_filter_http_stream_headers(StreamPtr, FilterPtr filter,
                                                             uint64_t id, const Field* headers,
                                                             size_t count, bool end) {
  tell(filter, "http_stream_headers",
       [&](Filter& f) { f.onSideHeaders(id, fields(headers, count), end); });
}

void envoy_dynamic_module_on_http_filter_http_stream_data(StreamPtr, FilterPtr filter, uint64_t id,
                                                          const Bytes* data, size_t count,
                                                          bool end) {
  tell(filter, "http_stream_data", [&](Filter& f) { f.onSideData(id, chunks(data, count), end); });
}

void envoy_dynamic_module_on_http_filter_http_stream_trailers(StreamPtr, FilterPtr filter,
                                                              uint64_t id, const Field* trailers,
                                                              size_t count) {
  tell(filter, "http_stream_trailers",
       [&](Filter& f) { f.onSideTrailers(id, fields(trailers, count)); });
}

void envoy_dynamic_module_on_http_filter_http_stream_complete(StreamPtr, FilterPtr filter,
                                                              uint64_t id) {
  tell(filter, "http_stream_complete", [&](Filter& f) { f.onSideComplete(id); });
}

void envoy_dynamic_module_on_http_filter_http_stream_reset(StreamPtr, FilterPtr filter, uint64_t id,
                                                           SideStreamReset reason) {
  tell(filter, "http_stream_reset", [&](Filter& f) { f.onSideReset(id, reason); });
}

void envoy_dynamic_module_on_http_filter_config_scheduled(ConfigPtr, ModuleConfigPtr module_config,
                                                          uint64_t) {
  const ConfigHolder& holder = configHolder(module_config);
  holder.run("config_scheduled", [&] { holder.drainMailbox(); });
}

void envoy_dynamic_module_on_http_filter_config_http_callout_done(
    ConfigPtr, ModuleConfigPtr module_config, uint64_t id, CalloutResult result,
    const Field* headers, size_t header_count, const Bytes* body, size_t chunk_count) {
  const ConfigHolder& holder = configHolder(module_config);
  holder.run("config_http_callout_done", [&] {
    holder.config().onCalloutDone(id, result, fields(headers, header_count),
                                  chunks(body, chunk_count));
  });
}

void envoy_dynamic_module_on_http_filter_config_http_stream_headers(ConfigPtr,
                                                                    ModuleConfigPtr module_config,
                                                                    uint64_t id,
                                                                    const Field* headers,
                                                                    size_t count, bool end) {
  const ConfigHolder& holder = configHolder(module_config);
  holder.run("config_http_stream_headers",
             [&] { holder.config().onSideHeaders(id, fields(headers, count), end); });
}

void envoy_dynamic_module_on_http_filter_config_http_stream_data(ConfigPtr,
                                                                 ModuleConfigPtr module_config,
                                                                 uint64_t id, const Bytes* data,
                                                                 size_t count, bool end) {
  const ConfigHolder& holder = configHolder(module_config);
  holder.run("config_http_stream_data",
             [&] { holder.config().onSideData(id, chunks(data, count), end); });
}

void envoy_dynamic_module_on_http_filter_config_http_stream_trailers(
    ConfigPtr, ModuleConfigPtr module_config, uint64_t id, const Field* trailers, size_t count) {
  const ConfigHolder& holder = configHolder(module_config);
  holder.run("config_http_stream_trailers",
             [&] { holder.config().onSideTrailers(id, fields(trailers, count)); });
}

void envoy_dynamic_module_on_http_filter_config_http_stream_complete(ConfigPtr,
                                                                     ModuleConfigPtr module_config,
                                                                     uint64_t id) {
  const ConfigHolder& holder = configHolder(module_config);
  holder.run("config_http_stream_complete", [&] { holder.config().onSideComplete(id); });
}

void envoy_dynamic_module_on_http_filter_config_http_stream_reset(ConfigPtr,
                                                                  ModuleConfigPtr module_config,
                                                                  uint64_t id,
                                                                  SideStreamReset reason) {
  const ConfigHolder& holder = configHolder(module_config);
  holder.run("config_http_stream_reset", [&] { holder.config().onSideReset(id, reason); });
}

}  // extern "C"

}  // namespace raw
}  // namespace idempotency::envoy
