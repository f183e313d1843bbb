#include "source/filter/stream/run_launch.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "source/filter/stream/waiting_runs.h"
#include "source/message/forwarded_request.h"
#include "source/message/trace_context.h"
#include "source/protocol/record.h"
#include "source/runtime/run_dialer.h"

namespace idempotency::filter {
namespace {

std::vector<protocol::FieldView> viewsOf(const std::vector<envoy::Field>& fields) {
  std::vector<protocol::FieldView> views;
  views.reserve(fields.size());
  for (const envoy::Field& field : fields) {
    views.emplace_back(field.nameView(), field.valueView());
  }
  return views;
}

// With the context of the stream's span, of which the run's shall be a child. Without a span: none.
message::TraceContext contextOf(envoy::Stream stream,
                                std::span<const protocol::FieldView> headers) {
  const std::optional<envoy::SpanIds> ids = stream.spanIds();
  return ids ? message::traceContext(ids->trace, ids->span, headers) : message::TraceContext{};
}

std::string serialize(envoy::Stream stream, std::string_view token, bool ends_with_headers) {
  const std::vector<envoy::Field> headers = stream.requestHeaders().all();
  const std::vector<envoy::Field> trailers = stream.requestTrailers().all();
  const std::vector<protocol::FieldView> client_views = viewsOf(headers);
  const message::TraceContext context = contextOf(stream, client_views);
  const std::vector<protocol::FieldView> header_views = message::withContext(client_views, context);
  const std::vector<protocol::FieldView> trailer_views = viewsOf(trailers);
  const std::vector<std::string_view> body = stream.wholeBody(envoy::Direction::Request);
  return message::serializeForRun({header_views, body, trailer_views, ends_with_headers}, token);
}

// What the end of its connection means for a run that no stream has taken over. `proven`: whether
// the listener has ever done that. One that has not may lack the filter, and forward requests.
request::RunFailure failureOf(runtime::DialEnd end, bool proven) {
  switch (end) {
    case runtime::DialEnd::Refused:
      return request::RunFailure::NotStarted;
    case runtime::DialEnd::Full:
      return request::RunFailure::Full;
    case runtime::DialEnd::Disowned:
      return request::RunFailure::NotStarted;
    case runtime::DialEnd::Answered:
      return request::RunFailure::Lost;  // It may be the upstream's response.
    case runtime::DialEnd::Closed:
    case runtime::DialEnd::TimedOut:
      break;
  }
  return proven ? request::RunFailure::NotStarted : request::RunFailure::Lost;
}

// The connection to the private listener has ended. The dialer's thread.
void onConnectionEnded(request::DetachedRun& run, Backend& backend, runtime::DialEnd end,
                       std::string_view reason) {
  if (end == runtime::DialEnd::TimedOut) {
    run.onTimeout();
  }
  const request::RunFailure failure = failureOf(end, backend.hasStartedRuns());
  if (run.cancel(failure, backend)) {
    backend.onRunNotStarted(reason, failure == request::RunFailure::Lost);
  }
}

}  // namespace

void launchRun(envoy::Stream stream, const std::shared_ptr<Backend>& backend,
               const std::shared_ptr<request::DetachedRun>& run, bool ends_with_headers) {
  WaitingRuns& waiting = WaitingRuns::instance();
  const protocol::Attempt attempt = run->claim().ref.attempt;
  const std::string_view scheme = stream.requestHeaders().get(":scheme").value_or("");
  const std::string_view path = stream.requestHeaders().get(":path").value_or("");
  const std::string token =
      waiting.add({.run = run,
                   .backend = backend,
                   .scheme = std::string(scheme),
                   .path = std::string(message::needsEscapes(path) ? path : ""),
                   .connection = attempt,
                   .timeout = run->claim().policy->detached->timeout});
  if (token.empty()) {
    run->cancel(request::RunFailure::NotStarted, *backend);
    return;
  }
  const auto deadline =
      std::chrono::steady_clock::now() + backend->settings().private_listener->accept_timeout;
  try {
    std::string request = serialize(stream, token, ends_with_headers);
    if (request.empty()) {
      (void)waiting.take(token);
      run->cancel(request::RunFailure::NotStarted, *backend);
      return;
    }
    run->holdRequest(request.size());
    // The connection keeps the run, so that a claim that no stream took over is settled in any
    // case. The backend owns the dialer, whose callbacks end before it does.
    backend->dialer().dial(
        attempt, std::move(request), deadline,
        [run, &owner = *backend, token, attempt](runtime::DialEnd end, std::string_view reason) {
          (void)WaitingRuns::instance().take(token);
          // Until the end, because it may keep the backend.
          const auto redirected = WaitingRuns::instance().takeRedirected(attempt);
          onConnectionEnded(*run, owner, end, reason);
        });
  } catch (...) {  // No memory.
    (void)waiting.take(token);
    throw;
  }
}

}  // namespace idempotency::filter
