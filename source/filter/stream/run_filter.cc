#include "source/filter/stream/run_filter.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <utility>
#include <vector>

#include "source/filter/stream/request_reader.h"
#include "source/http/header_names.h"
#include "source/protocol/proxy_evidence.h"
#include "source/runtime/times.h"

namespace idempotency::filter {
namespace {

constexpr uint32_t NotFound = 404;

protocol::FieldList copyOf(const envoy::Headers& headers) {
  protocol::FieldList list;
  for (const envoy::Field& field : headers.all()) {
    list.emplace_back(field.nameView(), field.valueView());
  }
  return list;
}

// All of a response that is not the one that the run's stream has.
void sendInstead(request::DetachedRun& run, const message::ReplayMessage& message) {
  protocol::FieldList headers = {{":status", fmt::format("{}", message.status)}};
  headers.insert(headers.end(), message.headers.begin(), message.headers.end());
  const bool has_body = !message.body.empty();
  const bool has_trailers = !message.trailers.empty();
  run.sendHeaders(std::move(headers), !has_body && !has_trailers, ByUpstreamWord);
  if (has_body) {
    run.sendBody(std::string(message.body), !has_trailers);
  }
  if (has_trailers) {
    run.sendTrailers(message.trailers);
  }
}

// After the end of the run's stream. Any thread.
void tellClient(request::DetachedRun& run, const RequestTraits& request,
                const runtime::SettleReport& settled) {
  try {
    const auto message =
        settled.completed == nullptr ? std::nullopt : answerFrom(*settled.completed, request);
    if (message.has_value()) {
      sendInstead(run, *message);
      return;
    }
  } catch (...) {  // No memory: the client must not wait for it.
  }
  run.fail();
}

}  // namespace

std::unique_ptr<envoy::Filter> RunConfig::createFilter(envoy::Stream stream) {
  return std::make_unique<RunFilter>(stream, *this);
}

RunFilter::RunFilter(envoy::Stream stream, const RunConfig& config)
    : Filter(stream), config_(config), response_(stream) {}

// --- The request ------------------------------------------------------------------------------

envoy::HeadersAction RunFilter::onRequestHeaders(bool end) {
  if (start()) {
    if (end) {
      onRequestEnd();
    }
    return envoy::HeadersAction::Continue;
  }
  stream().increment(config_.stats().detached_strays);
  // So that a run of this process knows that nothing of it ran.
  const std::array<envoy::Field, 1> disowned = {envoy::Field(http::RunHeader, "unknown")};
  stream().sendLocalReply(NotFound, disowned, "no such run\n", "idempotency_no_such_run");
  return envoy::HeadersAction::StopIteration;
}

envoy::BodyAction RunFilter::onRequestBody(bool end) {
  if (end) {
    onRequestEnd();
  }
  return envoy::BodyAction::Continue;
}

envoy::TrailersAction RunFilter::onRequestTrailers() {
  onRequestEnd();
  return envoy::TrailersAction::Continue;
}

void RunFilter::onRequestEnd() {
  // Once there is a response, the place counts that.
  if (attempt_.has_value() && attempt_->phase() == request::RunningAttempt::Phase::Running) {
    place_.hold(0);
  }
}

std::optional<WaitingRun> RunFilter::findRun() const {
  const envoy::Headers headers = stream().requestHeaders();
  WaitingRuns& waiting = WaitingRuns::instance();
  const auto token = headers.get(http::RunHeader);
  return token.has_value() ? waiting.take(*token) : waiting.takeRedirected(attemptIn(headers));
}

bool RunFilter::start() {
  std::optional<WaitingRun> waiting = findRun();
  backend_ = waiting.has_value() ? waiting->backend.lock() : nullptr;
  if (backend_ == nullptr) {
    return false;
  }
  // First, so that the time to start cannot end any more: a run that has started would then be cut.
  const bool first = waiting->timeout.has_value();
  if (first && !backend_->dialer().setDeadline(
                   waiting->connection, std::chrono::steady_clock::now() + *waiting->timeout)) {
    return false;
  }
  std::optional<request::RunHold> hold = waiting->run->start(post(), *this);
  if (!hold.has_value()) {
    return false;
  }
  // First, because what follows may throw: from here on the claim has an owner that settles it.
  run_ = std::move(waiting->run);
  place_ = std::move(hold->place);
  attempt_.emplace(static_cast<request::ClaimKeeper&>(*this),
                   static_cast<request::AttemptStream&>(*this), response_, place_,
                   std::move(hold->claim));
  const store::ClaimRef& ref = attempt_->claim().ref;
  const protocol::Policy& policy = *attempt_->claim().policy;
  backend_->stats().lend(config_.lent());
  connection_ = ref.attempt;
  backend_->onRunStarted();
  stream().increment(config_.stats().in_flight);
  stream().increment(config_.stats().detached_running);
  stream().increment(first ? config_.stats().detached_runs : config_.stats().redirected);
  trace_.onIdentity(ref.identity, run_->keyHash());
  trace_.onAttempt(stream(), ref.attempt);
  if (first) {
    const envoy::Headers headers = stream().requestHeaders();
    headers.remove(http::RunHeader);
    headers.set(":scheme", waiting->scheme);
    if (!waiting->path.empty()) {
      headers.set(":path", waiting->path);
      stream().clearRouteCache();  // It was chosen by the path with escapes.
    }
  }
  const uint64_t needed = std::max<uint64_t>(policy.max_response_bytes, protocol::EnoughText);
  if (stream().bufferLimit() < needed) {
    stream().setBufferLimit(needed);
  }
  return true;
}

request::Post RunFilter::post() {
  return [mail = mailbox()](std::function<void()> task) { mail->post(std::move(task)); };
}

// --- The response -----------------------------------------------------------------------------

envoy::HeadersAction RunFilter::onResponseHeaders(bool end) {
  if (!attempt_.has_value()) {
    return envoy::HeadersAction::Continue;
  }
  ends_with_headers_ = end;
  observeHeaders(stream(), *attempt_, local_reply_, end);
  if (attempt_->holdsResponse()) {
    return envoy::HeadersAction::StopIteration;
  }
  relayHeaders(end);
  return envoy::HeadersAction::Continue;
}

envoy::BodyAction RunFilter::onResponseBody(bool end) {
  if (!attempt_.has_value()) {
    return envoy::BodyAction::Continue;
  }
  attempt_->onBody(end);
  if (attempt_->holdsResponse()) {
    return envoy::BodyAction::StopIterationAndBuffer;
  }
  relayHeaders(false);
  if (!end && !run_->mayContinue()) {
    // Envoy buffers what comes, and stops reading from the upstream when that is too much.
    return envoy::BodyAction::StopIterationAndWatermark;
  }
  relayBody(end);
  return envoy::BodyAction::Continue;
}

envoy::TrailersAction RunFilter::onResponseTrailers() {
  if (!attempt_.has_value()) {
    return envoy::TrailersAction::Continue;
  }
  attempt_->onTrailers();
  if (attempt_->holdsResponse()) {
    return envoy::TrailersAction::StopIteration;
  }
  relayHeaders(false);
  relayBody(false);
  relayTrailers();
  return envoy::TrailersAction::Continue;
}

envoy::LocalReplyAction RunFilter::onLocalReply(uint32_t /*code*/, std::string_view /*details*/,
                                                bool /*reset_imminent*/) {
  local_reply_ = true;
  // It takes the place of the response that is held.
  if (attempt_.has_value() && attempt_->phase() == request::RunningAttempt::Phase::Settling) {
    attempt_->stopHolding();
  }
  return envoy::LocalReplyAction::Continue;
}

void RunFilter::continueResponse() {
  const bool has_trailers = stream().responseTrailers().size() > 0;
  relayHeaders(ends_with_headers_);
  relayBody(!has_trailers);
  if (has_trailers) {
    relayTrailers();
  }
  stream().continueResponse();
}

bool RunFilter::continueWith(const runtime::CompletedRecord& completed) {
  const auto message = answerFrom(completed, traitsOf(stream()));
  if (!message.has_value()) {
    return false;
  }
  const bool has_client = run_->hasClient();
  headers_relayed_ = true;
  if (has_client) {
    sendInstead(*run_, *message);
  }
  stream().responseHeaders().remove("content-length");  // The body stays here.
  stream().dropBody(envoy::Direction::Response);
  onRelayed(has_client);
  stream().continueResponse();
  return true;
}

void RunFilter::onClientReady() {
  if (!attempt_.has_value() || attempt_->holdsResponse()) {
    return;  // The response has ended in the meantime: continueResponse() sends the rest.
  }
  relayBody(false);
  stream().continueResponse();
}

void RunFilter::relayHeaders(bool end) {
  if (std::exchange(headers_relayed_, true)) {
    return;
  }
  const envoy::Headers headers = stream().responseHeaders();
  // Looked up once: a client that has all of it leaves at once.
  const bool has_client = run_->hasClient();
  if (has_client) {
    run_->sendHeaders(copyOf(headers), end, ending_);
  }
  headers.remove("content-length");  // The body stays here.
  if (end) {
    onRelayed(has_client);
  }
}

void RunFilter::relayBody(bool end) {
  if (relayed_) {
    return;
  }
  const bool has_client = run_->hasClient();
  if (has_client) {
    std::string bytes = response_.body();
    if (!bytes.empty() || end) {
      run_->sendBody(std::move(bytes), end);
    }
  }
  stream().dropBody(envoy::Direction::Response);
  if (end) {
    onRelayed(has_client);
  }
}

void RunFilter::relayTrailers() {
  const bool has_client = run_->hasClient();
  if (has_client) {
    run_->sendTrailers(copyOf(stream().responseTrailers()));
  }
  onRelayed(has_client);
}

void RunFilter::onRelayed(bool has_client) {
  relayed_ = true;
  stream().increment(has_client ? config_.stats().detached_handed_over
                                : config_.stats().detached_finished_alone);
}

// --- The attempt ------------------------------------------------------------------------------

void RunFilter::onEnding(const protocol::AttemptEnding& ending) {
  tellEnding(request::wordOf(ending));
  StreamCounts(stream(), config_.stats(), *backend_).onOutcome(ending.basis);
}

void RunFilter::onWritten(bool stored, store::Deadline since) {
  stream().record(config_.stats().completion_us, runtime::microsecondsSince(since));
  if (!stored) {
    stream().increment(config_.stats().not_stored);
    tellEnding("not_stored");
  }
}

void RunFilter::onCompletedByUpstream(store::Deadline since) {
  stream().record(config_.stats().completion_us, runtime::microsecondsSince(since));
  tellEnding(ByUpstreamWord);
}

void RunFilter::tellEnding(std::string_view ending) {
  ending_ = ending;
  trace_.onOutcome(stream(), ending);
  if (headers_relayed_) {
    run_->sendEnding(ending);
  }
}

void RunFilter::onNoRoomForResponse() {
  stream().increment(config_.stats().held_bytes_unkept);
}

void RunFilter::settle(const runtime::HeldClaim& claim, protocol::Ending ending,
                       std::shared_ptr<const runtime::CompletedRecord> completed,
                       runtime::OnSettled report) {
  // Without a report the stream has ended. The upstream may have completed the record all the same,
  // so the client is told when the store has been asked.
  const bool tells_later = report == nullptr && claim.ref.own_transaction && !headers_relayed_;
  if (tells_later) {
    report = [run = run_, request = traitsOf(stream())](const runtime::SettleReport& settled) {
      tellClient(*run, request, settled);
    };
  }
  backend_->settle(claim, std::move(ending), std::move(completed), std::move(report));
  tells_client_later_ = tells_later;
}

void RunFilter::passOn(runtime::HeldClaim claim) {
  const protocol::Attempt attempt = claim.ref.attempt;
  // First, because it may throw: then the claim is still the caller's.
  WaitingRuns::instance().addRedirected(
      attempt, {.run = run_, .backend = backend_, .kept_backend = backend_});
  if (!run_->redirect({std::move(claim), std::move(place_)})) {
    (void)WaitingRuns::instance().takeRedirected(attempt);
  }
}

void RunFilter::letLeaseEnd(protocol::Attempt attempt) {
  backend_->letLeaseEnd(attempt);
}

std::optional<std::chrono::milliseconds> RunFilter::reconcileAfter(
    const std::string& operation) const {
  return backend_->reconcileAfter(operation);
}

// --- The end ----------------------------------------------------------------------------------

void RunFilter::onStreamComplete() {
  if (run_ == nullptr) {
    return;
  }
  trace_.finish(stream());
  bool goes_on = false;
  try {
    goes_on = attempt_->end();
  } catch (...) {
    // No memory: the attempt's destructor settles the claim. The client is still told.
  }
  place_ = runtime::Admission::Place();
  stream().decrement(config_.stats().in_flight);
  stream().decrement(config_.stats().detached_running);
  if (goes_on) {
    return;
  }
  if (!relayed_) {
    stream().increment(config_.stats().detached_lost);
    if (!tells_client_later_) {
      run_->fail();
    }
  }
  // Envoy would keep the connection for a while, for a client that still reads.
  backend_->dialer().close(connection_);
}

}  // namespace idempotency::filter
