#include "source/filter/stream/stream_filter.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "source/filter/stream/own_reply.h"
#include "source/filter/stream/run_launch.h"
#include "source/http/header_names.h"
#include "source/http/prefer.h"
#include "source/message/replay.h"
#include "source/protocol/key_hash.h"
#include "source/protocol/overloaded.h"
#include "source/protocol/proxy_evidence.h"
#include "source/runtime/times.h"
#include "source/store/audit.h"

namespace idempotency::filter {
namespace {

bool isCoveredByDefault(std::string_view method) {
  static const std::vector<std::string> methods = protocol::Policy().methods;
  return std::find(methods.begin(), methods.end(), method) != methods.end();
}

protocol::Answer answerTo(request::RunFailure failure, const protocol::Policy& policy) {
  switch (failure) {
    case request::RunFailure::Full:
      return {.problem = protocol::Problem::Overloaded,
              .retry_after = policy.in_flight.retry_after};
    case request::RunFailure::TimedOut:
      return {.problem = protocol::Problem::DetachedTimeout};
    case request::RunFailure::Lost:
      return {.problem = protocol::Problem::DetachedLost};
    case request::RunFailure::NotStarted:
      break;
  }
  return {.problem = protocol::Problem::DetachedUnavailable,
          .retry_after = policy.in_flight.retry_after};
}

// Of a GET request; empty for others, which have no status resource.
std::string_view pathOf(envoy::Stream stream) {
  const envoy::Headers headers = stream.requestHeaders();
  return headers.get(":method") == "GET" ? headers.get(":path").value_or("") : "";
}

void setPreferences(const envoy::Headers& headers, const std::string& preferences) {
  headers.remove(http::PreferHeader);
  if (!preferences.empty()) {
    headers.set(http::PreferHeader, preferences);
  }
}

}  // namespace

StreamFilter::StreamFilter(envoy::Stream stream, const ModuleConfig& config)
    : Filter(stream),
      config_(config),
      counts_(stream, config.stats(), config.backend()),
      response_(stream) {}

// --- The request ------------------------------------------------------------------------------

envoy::HeadersAction StreamFilter::onRequestHeaders(bool end) {
  if (resumeAfterRedirect()) {
    return envoy::HeadersAction::Continue;
  }
  const auto* route = static_cast<const RoutePolicy*>(envoy::routeConfig(stream()));
  const SharedPolicy& shared = config_.policyFor(route);
  if (!shared.ok()) {
    backend().onConfigInvalid(stream().text(envoy::Attribute::RouteName).value_or(""),
                              std::string(shared.status().message()));
    answer(protocol::Policy(), protocol::Answer{protocol::Problem::ConfigInvalid});
    return envoy::HeadersAction::StopIteration;
  }
  const protocol::Policy& policy = **shared;
  if (const std::string_view token = config_.statusTokenIn(pathOf(stream())); !token.empty()) {
    answerStatus(token, *shared);
    return envoy::HeadersAction::StopIteration;
  }
  RequestReading request = readRequest(stream(), policy, config_.config().tenant_sources);
  ends_with_headers_ = end;
  // Without a body there is nothing to wait for.
  request.facts.awaits_continue = request.facts.awaits_continue && !end;
  const protocol::RequestDecision decision = protocol::decideRequest(policy, request.facts);
  if (const auto* refusal = std::get_if<protocol::Answer>(&decision)) {
    answer(policy, *refusal);
    return envoy::HeadersAction::StopIteration;
  }
  if (const auto* pass_on = std::get_if<protocol::Pass>(&decision)) {
    pass(request.facts.method, pass_on->reason);
    if (policy.enforcement != protocol::Enforcement::Off) {
      removeForged(stream().requestHeaders());
      hides_outcome_ = true;
    }
    return envoy::HeadersAction::Continue;
  }
  buffer(std::move(request), *shared);
  if (!end) {
    // From now on its body may be held. A request without a body enters later, when it must wait: a
    // request that the cache can answer immediately takes no place.
    if (const runtime::Refusal refusal = enter(); refusal != runtime::Refusal::None) {
      answer(*policy_, request::answerTo(refusal, *policy_));
    }
    return envoy::HeadersAction::StopIteration;
  }
  return claim() == Verdict::Continue ? envoy::HeadersAction::Continue
                                      : envoy::HeadersAction::StopIteration;
}

envoy::BodyAction StreamFilter::onRequestBody(bool end) {
  if (state_ == State::Answered || query_.has_value()) {
    return envoy::BodyAction::StopIterationNoBuffer;
  }
  if (state_ != State::Buffering) {
    return envoy::BodyAction::Continue;
  }
  // Before Envoy buffers it, which might be more than it may.
  const size_t size = stream().wholeBodySize(envoy::Direction::Request);
  if (size > policy_->max_request_bytes) {
    answer(*policy_, protocol::Answer{.problem = protocol::Problem::RequestTooLarge});
    return envoy::BodyAction::StopIterationNoBuffer;
  }
  if (const runtime::Refusal refusal = counted(place_.holdRequest(size));
      refusal != runtime::Refusal::None) {
    answer(*policy_, request::answerTo(refusal, *policy_));
    return envoy::BodyAction::StopIterationNoBuffer;
  }
  if (!end) {
    return envoy::BodyAction::StopIterationAndBuffer;
  }
  const Verdict verdict = claim();
  if (verdict == Verdict::Continue) {
    return envoy::BodyAction::Continue;
  }
  return state_ == State::Answered ? envoy::BodyAction::StopIterationNoBuffer
                                   : envoy::BodyAction::StopIterationAndBuffer;
}

envoy::TrailersAction StreamFilter::onRequestTrailers() {
  if (state_ == State::Answered || query_.has_value()) {
    return envoy::TrailersAction::StopIteration;
  }
  if (state_ != State::Buffering) {
    return envoy::TrailersAction::Continue;
  }
  return claim() == Verdict::Continue ? envoy::TrailersAction::Continue
                                      : envoy::TrailersAction::StopIteration;
}

bool StreamFilter::resumeAfterRedirect() {
  if (backend().redirects().empty()) {
    return false;
  }
  std::optional<runtime::HeldClaim> moved =
      backend().redirects().take(attemptIn(stream().requestHeaders()));
  if (!moved.has_value()) {
    return false;
  }
  // Independent of the new route's policy: the claim is held and must be settled.
  attempt_.emplace(backend(), static_cast<request::AttemptStream&>(*this), response_, place_,
                   *std::move(moved));
  const store::ClaimRef& ref = attempt_->claim().ref;
  stream().increment(stats().redirected);
  place_ = backend().admission().enterHolder(ref.identity.tenant, config_.tenantShare());
  stream().increment(stats().in_flight);
  trace_.onIdentity(ref.identity, protocol::keyHash(ref.identity));
  trace_.onAttempt(stream(), ref.attempt);
  return true;
}

void StreamFilter::answerStatus(std::string_view token,
                                std::shared_ptr<const protocol::Policy> policy) {
  stream().increment(stats().status_requests);
  is_status_ = true;
  policy_ = std::move(policy);
  std::optional<std::string> tenant = tenantOf(stream(), config_.config().tenant_sources);
  if (!tenant.has_value()) {
    answer(*policy_, {.problem = protocol::Problem::TenantMissing});
    return;
  }
  std::optional<protocol::Identity> identity = config_.statusTokens().open(token, *tenant);
  if (!identity.has_value()) {
    answer(*policy_, {.problem = protocol::Problem::RunNotFound});
    return;
  }
  request_.tenant = *std::move(tenant);
  state_ = State::Claiming;
  query_.emplace(backend().claimServices(), static_cast<request::ClaimantStream&>(*this), policy_,
                 *std::move(identity));
  trace_.onIdentity(query_->identity(), query_->keyHash());
  apply(query_->start());
}

void StreamFilter::pass(std::string_view method, protocol::PassReason reason) {
  // A method that would be covered by default, on a route that enforces nothing: worth knowing.
  if (reason == protocol::PassReason::Uncovered && isCoveredByDefault(method)) {
    counts_.onUnprotected(stream().text(envoy::Attribute::RouteName).value_or(""));
  }
}

void StreamFilter::buffer(RequestReading request, std::shared_ptr<const protocol::Policy> policy) {
  stream().increment(stats().covered);
  request_ = std::move(request);
  request_.facts.method = {};  // Envoy's text; gone after the hook.
  policy_ = std::move(policy);
  state_ = State::Buffering;
  // Envoy's own limit would answer 413, and 500 for a successful response. The filter checks first,
  // so what is held stays below its own limit.
  const uint64_t needed = std::max<uint64_t>(
      {policy_->max_request_bytes, policy_->max_response_bytes, protocol::EnoughText});
  if (stream().bufferLimit() < needed) {
    stream().setBufferLimit(needed);
  }
}

// --- The way to a claim -----------------------------------------------------------------------

StreamFilter::Verdict StreamFilter::claim() {
  state_ = State::Claiming;
  claimant_.emplace(backend().claimServices(), static_cast<request::ClaimantStream&>(*this),
                    policy_, identityOf(stream(), *policy_, request_), request_.async_wait);
  trace_.onIdentity(claimant_->identity(), claimant_->keyHash());
  return apply(claimant_->start());
}

void StreamFilter::onNext(const request::Next& next) {
  if (apply(next) == Verdict::Continue) {
    stream().continueRequest();
  }
}

StreamFilter::Verdict StreamFilter::apply(const request::Next& next) {
  return std::visit(protocol::Overloaded{
                        [&](const protocol::Answer& refusal) {
                          answer(*policy_, refusal);
                          return Verdict::Hold;
                        },
                        [&](const request::Hold&) { return Verdict::Hold; },
                        [&](const protocol::Pass&) { return failOpen(); },
                        [&](const protocol::Run&) { return run(); },
                        [&](const protocol::Replay&) {
                          replay();
                          return Verdict::Hold;
                        },
                    },
                    next);
}

StreamFilter::Verdict StreamFilter::run() {
  if (policy_->detached.has_value()) {
    detach();
    return Verdict::Hold;
  }
  attempt_.emplace(backend(), static_cast<request::AttemptStream&>(*this), response_, place_,
                   claimant_->takeClaim());
  beginRun(attempt_->claim());
  letGo();
  return Verdict::Continue;
}

void StreamFilter::beginRun(const runtime::HeldClaim& claim) {
  counts_.onRun(claimant_->reclaimedFrom());
  trace_.onAttempt(stream(), claim.ref.attempt);
  backend().keepAlive(claim);
  const envoy::Headers headers = stream().requestHeaders();
  removeForged(headers);
  const fmt::format_int attempt(claim.ref.attempt);
  headers.set(http::AttemptHeader, {attempt.data(), attempt.size()});
  if (claimant_->recoveryPoint() != store::FirstRecoveryPoint) {
    headers.set(http::RecoveryPointHeader, claimant_->recoveryPoint());
  }
}

void StreamFilter::detach() {
  // From here on the claim and the place are the run's, which gives them back if it cannot start.
  if (place_) {
    stream().decrement(stats().in_flight);  // The run counts itself.
  }
  place_.endWait();
  run_ = makeRun();
  tellRunWhetherSlow();
  state_ = State::Detached;
  beginRun(run_->claim());
  if (request_.async_wait.has_value()) {
    run_->announceStart();
    // The preferences that the filter itself follows are not for the upstream.
    setPreferences(stream().requestHeaders(), request_.preferences.others);
  }
  launchRun(stream(), config_.sharedBackend(), run_, ends_with_headers_);
  stream().dropBody(envoy::Direction::Request);  // It is on its way.
}

std::shared_ptr<request::DetachedRun> StreamFilter::makeRun() {
  request::RunHold hold{claimant_->takeClaim(), std::move(place_)};
  try {
    return std::make_shared<request::DetachedRun>(config_.sharedBackend(), std::move(hold),
                                                  trace_.keyHash(), backend().admission().charge(0),
                                                  post(), static_cast<request::RunClient&>(*this));
  } catch (...) {  // No memory, and so `hold` was not moved.
    backend().store().abandon(hold.claim.ref);
    throw;
  }
}

StreamFilter::Verdict StreamFilter::failOpen() {
  stream().increment(stats().store_fail_open);
  backend().onFailOpen();
  trace_.onOutcome(stream(), "fail_open");
  removeForged(stream().requestHeaders());
  fail_open_ = true;
  hides_outcome_ = true;
  letGo();
  return Verdict::Continue;
}

void StreamFilter::letGo() {
  state_ = State::Passing;
  place_.hold(0);
  place_.endWait();
}

request::Post StreamFilter::post() {
  return [mail = mailbox()](std::function<void()> task) { mail->post(std::move(task)); };
}

std::optional<fingerprint::FingerprintResult> StreamFilter::fingerprint(uint8_t version) {
  return fingerprintOf(stream(), *policy_, request_.principal, version);
}

runtime::Refusal StreamFilter::enter() {
  if (place_) {
    return runtime::Refusal::None;
  }
  const runtime::Refusal refusal =
      counted(backend().admission().enter(request_.tenant, config_.tenantShare(), place_));
  if (refusal == runtime::Refusal::None) {
    stream().increment(stats().in_flight);
  }
  return refusal;
}

runtime::Refusal StreamFilter::beginWait() {
  return counted(place_.beginWait());
}

runtime::Refusal StreamFilter::counted(runtime::Refusal refusal) const {
  counts_.onRefusal(refusal);
  return refusal;
}

void StreamFilter::onEvent(request::ClaimEvent event) {
  counts_.onClaimEvent(event);
}

void StreamFilter::onFound(const protocol::Decision& decision) {
  counts_.onFound(claimant_->identity().tenant, decision);
}

void StreamFilter::onClaimAnswered(store::Deadline asked) {
  stream().record(stats().claim_us, runtime::microsecondsSince(asked));
}

void StreamFilter::onStoreError(std::string_view reason) {
  backend().onClaimFailed(reason);
}

void StreamFilter::onUnreadable(const absl::Status& why) {
  Backend::onUnreadable(why);
}

// --- Replies of our own -----------------------------------------------------------------------

void StreamFilter::answer(const protocol::Policy& policy, const protocol::Answer& answer) {
  state_ = State::Answered;
  stream().increment(stats().forAnswer(answer.problem));
  trace_.onOutcome(stream(), protocol::problemCode(answer.problem));
  own_reply_ = true;
  sendAnswer(stream(), policy, answer, contextOf(answer));
}

message::AnswerContext StreamFilter::contextOf(const protocol::Answer& answer) const {
  message::AnswerContext context;
  const bool is_async = answer.problem == protocol::Problem::Asynchronous;
  std::optional<store::StoreTime> expires_at;
  if (query_.has_value()) {
    expires_at = query_->expiresAt();
  } else if (claimant_.has_value() && (run_ == nullptr || is_async)) {
    // Of a run that has failed, there is no record, or time does not end it.
    expires_at = claimant_->expiresAt();
  }
  if (expires_at.has_value()) {
    context.expires_at = runtime::secondsOf(*expires_at);
  }
  if (is_async) {
    context.location =
        config_.statusPath(query_.has_value() ? query_->identity() : claimant_->identity());
  }
  if (is_async && request_.async_wait.has_value()) {
    context.preference_applied =
        http::preferenceApplied(request_.preferences, *request_.async_wait);
  }
  context.no_store = is_status_;
  return context;
}

void StreamFilter::replay() {
  const runtime::CompletedRecord& completed =
      query_.has_value() ? query_->completed() : claimant_->completed();
  std::optional<message::ReplayMessage> special;
  if (request_.head) {
    special = message::buildReplay(
        completed.response, {.head = true, .expires_at = runtime::secondsOf(completed.expires_at)});
  } else if (is_status_) {
    special = message::buildReplay(
        completed.response,
        {.no_store = true, .expires_at = runtime::secondsOf(completed.expires_at)});
  }
  const std::optional<message::ReplayMessage>& message =
      special.has_value() ? special : completed.replay();
  if (!message.has_value()) {
    answer(*policy_, protocol::Answer{.problem = protocol::Problem::ResponseUnavailable,
                                      .original_status = completed.response.status});
    return;
  }
  state_ = State::Answered;
  trace_.onReplay(stream());
  own_reply_ = true;
  sendReplay(stream(), *message);
}

// --- The response -----------------------------------------------------------------------------

envoy::HeadersAction StreamFilter::onResponseHeaders(bool end) {
  if (fail_open_) {
    stream().responseHeaders().remove(
        {http::ReplayedHeader, http::ExpiresHeader, http::StoredHeader});
    stream().responseHeaders().set(http::EnforcedHeader, "false");
  }
  if (hides_outcome_) {
    stream().responseHeaders().remove(http::OutcomeHeader);
  }
  if (!attempt_.has_value()) {
    return envoy::HeadersAction::Continue;
  }
  observeHeaders(stream(), *attempt_, local_reply_, end);
  return attempt_->holdsResponse() ? envoy::HeadersAction::StopIteration
                                   : envoy::HeadersAction::Continue;
}

envoy::BodyAction StreamFilter::onResponseBody(bool end) {
  if (!attempt_.has_value()) {
    return envoy::BodyAction::Continue;
  }
  attempt_->onBody(end);
  return attempt_->holdsResponse() ? envoy::BodyAction::StopIterationAndBuffer
                                   : envoy::BodyAction::Continue;
}

envoy::TrailersAction StreamFilter::onResponseTrailers() {
  if (hides_outcome_) {
    stream().responseTrailers().remove(http::OutcomeHeader);
  }
  if (!attempt_.has_value()) {
    return envoy::TrailersAction::Continue;
  }
  attempt_->onTrailers();
  return attempt_->holdsResponse() ? envoy::TrailersAction::StopIteration
                                   : envoy::TrailersAction::Continue;
}

envoy::LocalReplyAction StreamFilter::onLocalReply(uint32_t /*code*/, std::string_view /*details*/,
                                                   bool /*reset_imminent*/) {
  if (own_reply_) {
    return envoy::LocalReplyAction::Continue;
  }
  local_reply_ = true;
  switch (state_) {
    case State::Buffering:
    case State::Claiming:
      if (claimant_.has_value()) {
        claimant_->leave();  // Nothing ran, and nothing will.
      }
      if (query_.has_value()) {
        query_->leave();
      }
      state_ = State::Passing;
      break;
    case State::Detached:
      leaveRun();  // The client gets another answer.
      state_ = State::Passing;
      break;
    case State::Passing:
    case State::Answered:
      break;
  }
  // It takes the place of the answer that is held. Before that, the response hooks follow, or the
  // stream's end.
  if (attempt_.has_value() && attempt_->phase() == request::RunningAttempt::Phase::Settling) {
    attempt_->stopHolding();
  }
  return envoy::LocalReplyAction::Continue;
}

void StreamFilter::continueResponse() {
  stream().continueResponse();
}

bool StreamFilter::continueWith(const runtime::CompletedRecord& completed) {
  const auto message = answerFrom(completed, traitsOf(stream()));
  if (message.has_value()) {
    replaceHeldResponse(stream(), *message);
  }
  return message.has_value();
}

void StreamFilter::onEnding(const protocol::AttemptEnding& ending) {
  trace_.onOutcome(stream(), request::wordOf(ending));
  counts_.onOutcome(ending.basis);
}

void StreamFilter::onWritten(bool stored, store::Deadline since) {
  stream().record(stats().completion_us, runtime::microsecondsSince(since));
  if (!stored) {
    stream().increment(stats().not_stored);
    trace_.onOutcome(stream(), "not_stored");
  }
}

void StreamFilter::onCompletedByUpstream(store::Deadline since) {
  stream().record(stats().completion_us, runtime::microsecondsSince(since));
  trace_.onOutcome(stream(), ByUpstreamWord);
}

void StreamFilter::onNoRoomForResponse() {
  stream().increment(stats().held_bytes_unkept);
}

// --- A detached run -----------------------------------------------------------------------------

void StreamFilter::onRunStarted() {
  if (state_ != State::Detached || run_answers_) {
    return;
  }
  if (request_.async_wait == std::chrono::milliseconds(0)) {
    answerAsync();
    return;
  }
  alarm_ = backend().alarms().set(std::chrono::steady_clock::now() + *request_.async_wait,
                                  wait_over_.expect(post(), [this] { answerAsync(); }));
}

void StreamFilter::answerAsync() {
  if (state_ != State::Detached || run_answers_) {
    return;
  }
  run_->leave();
  answer(*policy_, {.problem = protocol::Problem::Asynchronous,
                    .retry_after = policy_->in_flight.retry_after});
}

void StreamFilter::onRunHeaders(const protocol::FieldList& headers, bool end,
                                std::string_view ending) {
  if (state_ != State::Detached) {
    return;
  }
  run_answers_ = true;
  if (!ending.empty()) {
    trace_.onOutcome(stream(), ending);
  }
  onRunSends(end);
  stream().sendResponseHeaders(toFields(headers), end);
}

void StreamFilter::onRunBody(const std::string& bytes, bool end) {
  if (state_ != State::Detached) {
    return;
  }
  // First, because sending may end the stream.
  const std::shared_ptr<request::DetachedRun> run = run_;
  onRunSends(end);
  stream().sendResponseData(bytes, end);
  run->onSent(bytes.size());
}

void StreamFilter::onRunTrailers(const protocol::FieldList& trailers) {
  if (state_ == State::Detached) {
    onRunSends(true);
    stream().sendResponseTrailers(toFields(trailers));
  }
}

void StreamFilter::onRunEnding(std::string_view ending) {
  if (state_ == State::Detached) {
    trace_.onOutcome(stream(), ending);
  }
}

void StreamFilter::leaveRun() {
  run_->leave();
  trace_.onOutcome(stream(), "detached");
}

// Before the last part is sent, because that may end the stream.
void StreamFilter::onRunSends(bool end) {
  if (end) {
    state_ = State::Answered;
  }
}

void StreamFilter::onRunFailed(request::RunFailure failure) {
  if (state_ != State::Detached) {
    return;
  }
  if (run_answers_) {
    // The client must not take what it has for the whole response.
    stream().reset(envoy::StreamReset::LocalReset, "idempotency_run_lost");
    return;
  }
  if (failure == request::RunFailure::NotStarted || failure == request::RunFailure::Full) {
    stream().increment(stats().detached_not_started);
  }
  answer(*policy_, answerTo(failure, *policy_));
}

void StreamFilter::onDownstreamAboveHighWatermark() {
  ++full_buffers_;
  tellRunWhetherSlow();
}

void StreamFilter::onDownstreamBelowLowWatermark() {
  if (full_buffers_ > 0) {
    --full_buffers_;
  }
  tellRunWhetherSlow();
}

void StreamFilter::tellRunWhetherSlow() {
  if (run_ != nullptr) {
    run_->onClientSlow(full_buffers_ > 0);
  }
}

// --- The end ----------------------------------------------------------------------------------

void StreamFilter::onStreamComplete() {
  const bool cut_short = state_ == State::Buffering || state_ == State::Claiming ||
                         state_ == State::Detached || (attempt_.has_value() && attempt_->isOpen());
  if (claimant_.has_value()) {
    claimant_->leave();
  }
  if (query_.has_value()) {
    query_->leave();
  }
  if (state_ == State::Detached) {
    leaveRun();
  } else if (run_ != nullptr) {
    run_->leave();
  }
  if (alarm_.has_value()) {
    backend().alarms().cancel(*alarm_);
  }
  trace_.finish(stream());
  const bool goes_on = attempt_.has_value() && attempt_->end();
  if (cut_short && !goes_on) {
    stream().increment(stats().cut_short);
  }
  // If the filter answered inside a hook, that hook continues after this.
  state_ = state_ == State::Answered ? State::Answered : State::Passing;
  leavePlace();
}

void StreamFilter::leavePlace() {
  if (place_) {
    place_ = runtime::Admission::Place();
    stream().decrement(stats().in_flight);
  }
}

}  // namespace idempotency::filter
