// The hooks: what each does in each state. How the store is asked and answers are given is in
// stream_asking.cc, how attempts end in stream_settling.cc.
#include "source/filter/stream_filter.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>
#include <variant>
#include <vector>

#include "source/envoy/process.h"
#include "source/filter/key_hash.h"
#include "source/filter/response_reader.h"
#include "source/protocol/header_names.h"

namespace idempotency {
namespace {

bool isCoveredByDefault(std::string_view method) {
  static const std::vector<std::string> methods = Policy().methods;
  return std::find(methods.begin(), methods.end(), method) != methods.end();
}

Attempt attemptOf(std::string_view text) {
  Attempt attempt = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), attempt);
  return error == std::errc() && end == text.data() + text.size() ? attempt : 0;
}

}  // namespace

StreamFilter::~StreamFilter() {
  // onStreamComplete has done all this, unless it threw. The stream may be dead: only the backend
  // is asked.
  leaveRequest();
  if (claim_.has_value()) {
    backend().settle(*claim_, endingOf(*claim_, StoreAction{}, ResponseFacts{}, {}, "stream_lost"),
                     nullptr, nullptr);
  }
  if (entered_) {
    backend().leave();
  }
}

// --- The request ------------------------------------------------------------------------------

envoy::HeadersAction StreamFilter::onRequestHeaders(bool end) {
  if (resumeAfterRedirect()) {
    return envoy::HeadersAction::Continue;
  }
  const auto* route = static_cast<const RoutePolicy*>(envoy::routeConfig(stream()));
  const SharedPolicy& shared = config_.policyFor(route);
  if (!shared.ok()) {
    envoy::log(envoy::LogLevel::Error,
               fmt::format("idempotency: request refused, the route's policy contradicts the "
                           "filter's: {}",
                           std::string(shared.status().message())));
    answer(Policy(), Answer{Problem::ConfigInvalid});
    return envoy::HeadersAction::StopIteration;
  }
  const Policy& policy = **shared;
  RequestReading request = readRequest(stream(), policy, config_.config().tenant_sources);
  const RequestDecision decision = decideRequest(policy, request.facts);
  if (const auto* refusal = std::get_if<Answer>(&decision)) {
    answer(policy, *refusal);
    return envoy::HeadersAction::StopIteration;
  }
  if (const auto* pass_on = std::get_if<Pass>(&decision)) {
    pass(request.facts.method, pass_on->reason);
    if (policy.enforcement != Enforcement::Off) {
      stream().requestHeaders().remove({AttemptHeader, RecoveryPointHeader});
    }
    return envoy::HeadersAction::Continue;
  }
  buffer(std::move(request), *shared);
  if (end && ask(envoy::Within::OtherHook) == Verdict::Continue) {
    return envoy::HeadersAction::Continue;
  }
  return envoy::HeadersAction::StopIteration;
}

envoy::BodyAction StreamFilter::onRequestBody(bool end) {
  if (state_ == State::Answered) {
    return envoy::BodyAction::StopIterationNoBuffer;
  }
  if (state_ != State::Buffering) {
    return envoy::BodyAction::Continue;
  }
  // Before Envoy buffers it, which might be more than it may.
  if (stream().wholeBodySize(envoy::Direction::Request, envoy::Within::BodyHook) >
      policy_->max_request_bytes) {
    answer(*policy_, Answer{.problem = Problem::RequestTooLarge});
    return envoy::BodyAction::StopIterationNoBuffer;
  }
  if (!end) {
    return envoy::BodyAction::StopIterationAndBuffer;
  }
  const Verdict verdict = ask(envoy::Within::BodyHook);
  if (verdict == Verdict::Continue) {
    return envoy::BodyAction::Continue;
  }
  return state_ == State::Answered ? envoy::BodyAction::StopIterationNoBuffer
                                   : envoy::BodyAction::StopIterationAndBuffer;
}

envoy::TrailersAction StreamFilter::onRequestTrailers() {
  if (state_ == State::Answered) {
    return envoy::TrailersAction::StopIteration;
  }
  if (state_ != State::Buffering) {
    return envoy::TrailersAction::Continue;
  }
  return ask(envoy::Within::OtherHook) == Verdict::Continue ? envoy::TrailersAction::Continue
                                                            : envoy::TrailersAction::StopIteration;
}

bool StreamFilter::resumeAfterRedirect() {
  if (backend().redirects().empty()) {
    return false;
  }
  const std::string_view text = stream().requestHeaders().get(AttemptHeader).value_or("");
  std::optional<HeldClaim> claim = backend().redirects().take(attemptOf(text));
  if (!claim.has_value()) {
    return false;
  }
  // Whatever the new route says: the claim is held and must be settled.
  stream().increment(stats().redirected);
  backend().enter(Backend::Entry::Unbounded);
  countIn();
  policy_ = claim->policy;
  identity_ = claim->ref.identity;
  expires_at_ = claim->expires_at;
  claim_ = std::move(claim);
  trace_.onIdentity(identity_, keyHash(identity_));
  trace_.onAttempt(stream(), claim_->ref.attempt);
  state_ = State::Running;
  return true;
}

void StreamFilter::pass(std::string_view method, PassReason reason) {
  // A method that would be covered by default, on a route that enforces nothing: worth knowing.
  if (reason == PassReason::Uncovered && isCoveredByDefault(method)) {
    const auto route = stream().text(envoy::Attribute::RouteName).value_or("");
    backend().stats().count(stream(), stats(), &Stats::unprotected,
                            route.empty() ? "unnamed" : route);
  }
}

void StreamFilter::buffer(RequestReading request, std::shared_ptr<const Policy> policy) {
  stream().increment(stats().covered);
  request_ = std::move(request);
  request_.facts.method = {};  // Envoy's text; gone after the hook.
  policy_ = std::move(policy);
  state_ = State::Buffering;
  // Envoy's own limit would answer 413, and 500 for a response that succeeded. We look first, so
  // what is held stays below ours.
  const uint64_t needed = std::max(policy_->max_request_bytes, policy_->max_response_bytes);
  if (stream().bufferLimit() < needed) {
    stream().setBufferLimit(needed);
  }
}

// --- The response -----------------------------------------------------------------------------

envoy::HeadersAction StreamFilter::onResponseHeaders(bool end) {
  if (fail_open_) {
    stream().responseHeaders().remove({ReplayedHeader, ExpiresHeader, StoredHeader});
    stream().responseHeaders().set(EnforcedHeader, "false");
  }
  if (state_ != State::Running && state_ != State::Gathering) {
    return envoy::HeadersAction::Continue;
  }
  stream().responseHeaders().remove({ReplayedHeader, ExpiresHeader, StoredHeader, EnforcedHeader});
  if (local_reply_) {
    settleUnanswered();
    return envoy::HeadersAction::StopIteration;
  }
  if (!isFromUpstream(stream())) {
    // Another filter's own response, of any length: nothing to hold it for.
    settleUnanswered();
    state_ = State::Passing;
    return envoy::HeadersAction::Continue;
  }
  via_upstream_ = true;
  upstream_status_ = statusOf(stream());
  state_ = State::Gathering;
  if (end) {
    finishResponse(envoy::Within::OtherHook);
    return envoy::HeadersAction::StopIteration;
  }
  if (isKnownTooLarge(stream(), *policy_) || isEndless(stream())) {
    overflow();
    headers_gone_ = true;
    return envoy::HeadersAction::Continue;
  }
  return envoy::HeadersAction::StopIteration;
}

envoy::BodyAction StreamFilter::onResponseBody(bool end) {
  if (state_ == State::Settling) {
    return envoy::BodyAction::StopIterationAndBuffer;  // Somebody else's reply.
  }
  if (state_ == State::Gathering) {
    const size_t size = stream().wholeBodySize(envoy::Direction::Response, envoy::Within::BodyHook);
    if (size > policy_->max_response_bytes) {
      overflow();
    } else if (end) {
      finishResponse(envoy::Within::BodyHook);
    } else {
      return envoy::BodyAction::StopIterationAndBuffer;
    }
  }
  if (state_ == State::Overflowing && end) {
    // The last part is here already, however large: Envoy may hold it.
    const size_t size = stream().wholeBodySize(envoy::Direction::Response, envoy::Within::BodyHook);
    if (stream().bufferLimit() < size) {
      stream().setBufferLimit(size);
    }
    finishResponse(envoy::Within::BodyHook);
  }
  if (state_ == State::Settling) {
    return envoy::BodyAction::StopIterationAndBuffer;
  }
  headers_gone_ = true;
  return envoy::BodyAction::Continue;
}

envoy::TrailersAction StreamFilter::onResponseTrailers() {
  if (state_ == State::Gathering || state_ == State::Overflowing) {
    finishResponse(envoy::Within::OtherHook);
  }
  return state_ == State::Settling ? envoy::TrailersAction::StopIteration
                                   : envoy::TrailersAction::Continue;
}

envoy::LocalReplyAction StreamFilter::onLocalReply(uint32_t /*code*/, std::string_view /*details*/,
                                                   bool /*reset_imminent*/) {
  if (own_reply_) {
    return envoy::LocalReplyAction::Continue;
  }
  local_reply_ = true;
  switch (state_) {
    case State::Asking:
    case State::Waiting:
    case State::Buffering:
      leaveRequest();  // Nothing ran, and nothing will.
      state_ = State::Passing;
      break;
    case State::Settling:
      state_ = State::Passing;  // It takes the place of the answer that was held.
      break;
    case State::Passing:
    case State::Running:
    case State::Gathering:
    case State::Overflowing:
    case State::Answered:
      break;  // The response hooks follow, or the stream's end.
  }
  return envoy::LocalReplyAction::Continue;
}

// --- The end ----------------------------------------------------------------------------------

void StreamFilter::onStreamComplete() {
  const bool whole =
      state_ == State::Passing || state_ == State::Answered || state_ == State::Settling;
  leaveRequest();
  trace_.finish(stream());
  const bool goes_on = settleAtEnd();
  if (!whole && !goes_on) {
    stream().increment(stats().cut_short);
  }
  // Where we answered inside a hook, that hook goes on after this.
  state_ = state_ == State::Answered ? State::Answered : State::Passing;
  if (std::exchange(entered_, false)) {
    backend().leave();
    stream().decrement(stats().in_flight);
  }
}

}  // namespace idempotency
