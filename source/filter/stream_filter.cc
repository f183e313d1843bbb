#include "source/filter/stream_filter.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>
#include <variant>
#include <vector>

#include "source/envoy/process.h"
#include "source/filter/response_reader.h"
#include "source/filter/trace.h"
#include "source/protocol/answer.h"
#include "source/protocol/classify.h"
#include "source/protocol/fingerprint_match.h"
#include "source/protocol/grpc.h"
#include "source/protocol/header_names.h"
#include "source/protocol/headers.h"
#include "source/protocol/http_date.h"
#include "source/protocol/overloaded.h"
#include "source/protocol/replay.h"
#include "source/protocol/stored_response.h"
#include "source/store/audit.h"

namespace idempotency {
namespace {

using std::chrono::steady_clock;

// How often one request claims again before it gives way: each time somebody else was faster.
constexpr uint32_t MostReclaims = 8;

std::vector<envoy::Field> toFields(const FieldList& list) {
  std::vector<envoy::Field> fields;
  fields.reserve(list.size() + 1);
  for (const auto& [name, value] : list) {
    fields.emplace_back(name, value);
  }
  return fields;
}

bool isCoveredByDefault(std::string_view method) {
  static const std::vector<std::string> methods = Policy().methods;
  return std::find(methods.begin(), methods.end(), method) != methods.end();
}

std::string_view viewOf(const Fingerprint& fingerprint) {
  return {reinterpret_cast<const char*>(fingerprint.data()), fingerprint.size()};
}

int64_t secondsOf(StoreTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

uint64_t microsecondsSince(Deadline begin) {
  const auto passed = steady_clock::now() - begin;
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(passed).count());
}

Attempt attemptOf(std::string_view text) {
  Attempt attempt = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), attempt);
  return error == std::errc() && end == text.data() + text.size() ? attempt : 0;
}

// Whoever reads these must be able to believe them.
void removeForged(const envoy::Headers& headers, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    headers.remove(name);
  }
}

// Why a response did not come, in Envoy's word for it: no text of the upstream's.
std::string errorWord(envoy::Stream stream) {
  constexpr size_t Longest = 64;
  const std::string_view details = stream.text(envoy::Attribute::ResponseCodeDetails).value_or("");
  const std::string_view word = details.substr(0, details.find_first_of("{[(|"));
  return word.empty() ? "no_response" : std::string(word.substr(0, Longest));
}

std::string_view wordOf(StoreActionKind kind, Tombstone tombstone) {
  switch (kind) {
    case StoreActionKind::MarkUnknown:
      return "unknown";
    case StoreActionKind::Complete:
      return tombstone == Tombstone::None ? "stored" : "tombstone";
    case StoreActionKind::Fail:
      return "failed_retryable";
    case StoreActionKind::Release:
      return "released";
    case StoreActionKind::Leave:
      return "redirected";
  }
  return "unknown";
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
  if (policy.enforcement != Enforcement::Off) {
    removeForged(stream().requestHeaders(), {AttemptHeader, RecoveryPointHeader});
  }
  RequestReading request = readRequest(stream(), policy, config_.config().tenant_sources);
  const RequestDecision decision = decideRequest(policy, request.facts);
  if (const auto* refusal = std::get_if<Answer>(&decision)) {
    answer(policy, *refusal);
    return envoy::HeadersAction::StopIteration;
  }
  if (const auto* pass_on = std::get_if<Pass>(&decision)) {
    pass(request.facts.method, pass_on->reason);
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
  traceRequest(stream(), identity_);
  traceAttempt(stream(), claim_->ref.attempt);
  state_ = State::Running;
  return true;
}

void StreamFilter::pass(std::string_view method, PassReason reason) {
  // A method that would be covered by default, on a route that enforces nothing: worth knowing.
  if (reason == PassReason::Uncovered && isCoveredByDefault(method)) {
    const auto route = stream().text(envoy::Attribute::RouteName).value_or("");
    stream().increment(stats().unprotected, {route.empty() ? "unnamed" : route});
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

StreamFilter::Verdict StreamFilter::ask(envoy::Within within) {
  identity_ = identityOf(stream(), *policy_, request_);
  traceRequest(stream(), identity_);
  const auto fingerprint = fingerprintOf(stream(), *policy_, request_.principal, within);
  if (!fingerprint.has_value()) {
    return judge(storeFailed("the request cannot be hashed"));
  }
  fingerprint_ = fingerprint->fingerprint;
  if (fingerprint->body_form == BodyForm::RejectedJson) {
    stream().increment(stats().json_rejected);
  }
  if (const auto result = findCached(within)) {
    return judge(*result);
  }
  if (!backend().enter()) {
    stream().increment(stats().in_flight_full);
    return judge(storeFailed("too many requests are in flight"));
  }
  countIn();
  took_token_ = backend().keyRate().take(identity_.tenant, steady_clock::now());
  if (took_token_) {
    askToClaim(std::nullopt);
  } else {
    askToLookUp();
  }
  return Verdict::Hold;
}

void StreamFilter::countIn() {
  entered_ = true;
  stream().increment(stats().in_flight);
}

std::optional<StoreResult> StreamFilter::findCached(envoy::Within within) {
  auto completed = backend().cache().find(identity_, steady_clock::now());
  if (completed == nullptr) {
    return std::nullopt;
  }
  stream().increment(stats().replay_cached);
  completed_ = std::move(completed);
  expires_at_ = completed_->expires_at;
  return factsOf(*completed_, [&](const std::string& stored) { return match(stored, within); });
}

void StreamFilter::askToClaim(std::optional<ReclaimFrom> from) {
  state_ = State::Asking;
  asked_ = steady_clock::now();
  asking_ = newAttempt();
  reclaims_from_ = from.has_value() ? std::optional(from->state) : std::nullopt;
  ClaimRequest request;
  request.identity = identity_;
  request.fingerprint = viewOf(fingerprint_);
  request.attempt = asking_;
  request.lease = policy_->lease;
  request.ttl = policy_->ttl;
  request.on_lease_expired = policy_->on_lease_expired;
  request.from = from;
  request.tenant_live_keys = backend().settings().limits.tenant_live_keys;
  backend().store().claim(std::move(request), asked_ + timeoutOf(backend().settings().store),
                          [this, mail = mailbox(), question = ++question_](ClaimResult result) {
                            mail->post([this, question, result = std::move(result)]() mutable {
                              onClaimResult(question, std::move(result));
                            });
                          });
}

void StreamFilter::askToLookUp() {
  state_ = State::Asking;
  asked_ = steady_clock::now();
  backend().store().lookUp(identity_, asked_ + timeoutOf(backend().settings().store),
                           [this, mail = mailbox(), question = ++question_](LookUpResult result) {
                             mail->post([this, question, result = std::move(result)]() mutable {
                               onLookUpResult(question, std::move(result));
                             });
                           });
}

void StreamFilter::onClaimResult(uint64_t question, ClaimResult result) {
  if (state_ != State::Asking || question != question_) {
    return;
  }
  stream().record(stats().claim_us, microsecondsSince(asked_));
  const StoreResult facts = std::visit(
      Overloaded{
          [&](const Unavailable& failure) -> StoreResult { return storeFailed(failure.reason); },
          [&](const InDoubt& doubt) -> StoreResult { return storeFailed(doubt.reason); },
          [&](const OverQuota& quota) -> StoreResult {
            return QuotaReached{std::max(std::chrono::ceil<std::chrono::seconds>(quota.retry_after),
                                         std::chrono::seconds(1))};
          },
          [&](const Claimed& claimed) -> StoreResult { return grant(claimed); },
          [&](const Exists& exists) -> StoreResult { return found(exists.record); },
      },
      result);
  if (!std::holds_alternative<ClaimGranted>(facts)) {
    asking_ = 0;
    if (std::exchange(took_token_, false)) {
      backend().keyRate().giveBack(identity_.tenant);  // No new key after all.
    }
  }
  resume(facts);
}

void StreamFilter::onLookUpResult(uint64_t question, LookUpResult result) {
  if (state_ != State::Asking || question != question_) {
    return;
  }
  resume(std::visit(
      Overloaded{
          [&](const Unavailable& failure) -> StoreResult { return storeFailed(failure.reason); },
          [&](const Absent&) -> StoreResult { return QuotaReached{}; },
          [&](const Record& record) -> StoreResult { return found(record); },
      },
      result));
}

void StreamFilter::resume(const StoreResult& result) {
  if (judge(result) == Verdict::Continue) {
    stream().continueRequest();
  }
}

StreamFilter::Verdict StreamFilter::judge(const StoreResult& result) {
  ClaimFacts facts;
  if (waits_since_ != Deadline{}) {
    facts.waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - waits_since_);
  }
  const Decision decision = decide(*policy_, facts, result);
  if (std::holds_alternative<RecordFound>(result)) {
    countFound(decision);
  }
  return apply(decision);
}

StreamFilter::Verdict StreamFilter::apply(const Decision& decision) {
  return std::visit(Overloaded{
                        [&](const Answer& refusal) {
                          answer(*policy_, refusal);
                          return Verdict::Hold;
                        },
                        [&](const Pass&) { return failOpen(); },
                        [&](const Reclaim& again) { return reclaim(again); },
                        [&](const Run&) { return run(); },
                        [&](const Replay&) {
                          replay();
                          return Verdict::Hold;
                        },
                        [&](const Wait& hold) { return wait(hold); },
                    },
                    decision);
}

StreamFilter::Verdict StreamFilter::reclaim(const Reclaim& again) {
  if (++reclaims_ > MostReclaims) {
    answer(*policy_,
           Answer{.problem = Problem::InProgress, .retry_after = policy_->in_flight.retry_after});
    return Verdict::Hold;
  }
  askToClaim(ReclaimFrom{again.from_state, again.from_attempt});
  return Verdict::Hold;
}

StreamFilter::Verdict StreamFilter::run() {
  const ClaimRef& ref = claim_->ref;
  countClaim();
  traceAttempt(stream(), ref.attempt);
  backend().keepAlive(*claim_);
  const envoy::Headers headers = stream().requestHeaders();
  headers.set(AttemptHeader, fmt::format("{}", ref.attempt));
  if (recovery_point_ != FirstRecoveryPoint) {
    headers.set(RecoveryPointHeader, recovery_point_);
  }
  state_ = State::Running;
  return Verdict::Continue;
}

void StreamFilter::countClaim() const {
  if (!reclaims_from_.has_value()) {
    return stream().increment(stats().reserve_created);
  }
  const bool over =
      *reclaims_from_ == RecordState::Completed || *reclaims_from_ == RecordState::Expired;
  stream().increment(over ? stats().reserve_expired_run : stats().reserve_failed_retry);
}

StreamFilter::Verdict StreamFilter::wait(const Wait& hold) {
  const Deadline now = steady_clock::now();
  if (waits_since_ == Deadline{}) {
    waits_since_ = now;
    stream().increment(stats().waited);
  }
  state_ = State::Waiting;
  const uint64_t question = ++question_;
  ticket_ = backend().waiters().add(identity_, seen_attempt_, now, now + hold.at_most,
                                    [this, mail = mailbox(), question] {
                                      mail->post([this, question] {
                                        if (state_ == State::Waiting && question == question_) {
                                          onWoken();
                                        }
                                      });
                                    });
  return Verdict::Hold;
}

StreamFilter::Verdict StreamFilter::failOpen() {
  stream().increment(stats().store_fail_open);
  traceOutcome(stream(), "fail_open");
  fail_open_ = true;
  state_ = State::Passing;
  return Verdict::Continue;
}

void StreamFilter::onWoken() {
  ticket_ = 0;
  // Most often what ran has been stored, and kept here, just now.
  if (const auto result = findCached(envoy::Within::OtherHook)) {
    resume(*result);
  } else {
    askToClaim(std::nullopt);
  }
}

// The only way to a claim.
StoreResult StreamFilter::grant(const Claimed& claimed) {
  HeldClaim claim;
  claim.ref = {identity_, claimed.attempt};
  claim.fingerprint = viewOf(fingerprint_);
  claim.policy = policy_;
  claim.expires_at = claimed.expires_at;
  claim.asked = asked_;
  // A process that stood still may get its claim when others already take it for dead. Nothing ran:
  // it goes back.
  if (!claim.leaseLives(steady_clock::now())) {
    stream().increment(stats().store_late_answer);
    backend().store().abandon(claim.ref);
    return storeFailed("the claim came too late");
  }
  asking_ = 0;
  expires_at_ = claimed.expires_at;
  recovery_point_ = claimed.recovery_point;
  claim_ = std::move(claim);
  return ClaimGranted{};
}

StoreResult StreamFilter::found(const Record& record) {
  expires_at_ = record.expires_at;
  seen_attempt_ = record.attempt;
  completed_ = completedRecord(record, asked_);
  if (completed_ != nullptr && !record.past_life) {
    backend().cache().insert(identity_, completed_, steady_clock::now());
  }
  return factsOf(record, completed_.get(), [this](const std::string& stored) {
    return match(stored, envoy::Within::OtherHook);
  });
}

StoreFailed StreamFilter::storeFailed(std::string_view reason) {
  backend().onStoreError("a request was not claimed", reason);
  return {};
}

FingerprintMatch StreamFilter::match(const std::string& stored, envoy::Within within) const {
  const Recompute recompute = [&](uint8_t version) -> std::optional<Fingerprint> {
    const auto result = fingerprintOf(stream(), *policy_, request_.principal, within, version);
    return result.has_value() ? std::optional(result->fingerprint) : std::nullopt;
  };
  return matchFingerprint(stored, fingerprint_, recompute);
}

void StreamFilter::countFound(const Decision& decision) const {
  const auto count = [this](envoy::Counter counter) { stream().increment(counter); };
  const auto duplicate = [this] {
    stream().increment(stats().tenant_duplicates,
                       {backend().tenantLabels().labelFor(identity_.tenant)});
  };
  if (std::holds_alternative<Replay>(decision)) {
    duplicate();
    return count(stats().reserve_replay);
  }
  if (std::holds_alternative<Wait>(decision)) {
    duplicate();
    return count(stats().reserve_in_progress);
  }
  const auto* refusal = std::get_if<Answer>(&decision);
  if (refusal == nullptr) {
    return;
  }
  switch (refusal->problem) {
    case Problem::KeyReused:
      stream().increment(stats().tenant_key_misuses,
                         {backend().tenantLabels().labelFor(identity_.tenant)});
      return count(stats().reserve_key_misuse);
    case Problem::InProgress:
    case Problem::Accepted:
      duplicate();
      return count(stats().reserve_in_progress);
    case Problem::OutcomeUnknown:
      duplicate();
      return count(stats().reserve_unknown);
    default:
      duplicate();
  }
}

// --- Answers of our own -----------------------------------------------------------------------

void StreamFilter::answer(const Policy& policy, const Answer& answer) {
  state_ = State::Answered;
  stream().increment(stats().forAnswer(answer.problem));
  const std::string_view code = problemCode(answer.problem);
  traceOutcome(stream(), code);
  AnswerContext context;
  context.grpc = isGrpc(stream().requestHeaders().get("content-type").value_or(""));
  if (expires_at_.has_value()) {
    context.expires_at = secondsOf(*expires_at_);
  }
  const HttpAnswer rendered = renderAnswer(policy, answer, context);
  const std::vector<envoy::Field> headers = toFields(rendered.headers);
  own_reply_ = true;
  stream().sendLocalReply(static_cast<uint32_t>(rendered.status), headers, rendered.body, code);
}

void StreamFilter::replay() {
  ReplayContext context;
  context.head = stream().requestHeaders().get(":method").value_or("") == "HEAD";
  context.expires_at = secondsOf(completed_->expires_at);
  const std::optional<ReplayMessage> message = buildReplay(completed_->response, context);
  if (!message.has_value()) {
    answer(*policy_, Answer{.problem = Problem::ResponseUnavailable,
                            .original_status = completed_->response.status});
    return;
  }
  state_ = State::Answered;
  traceOutcome(stream(), "replayed");
  traceReplay(stream());
  const std::string status = fmt::format("{}", message->status);
  std::vector<envoy::Field> headers = {{":status", status}};
  const std::vector<envoy::Field> stored = toFields(message->headers);
  headers.insert(headers.end(), stored.begin(), stored.end());
  const std::vector<envoy::Field> trailers = toFields(message->trailers);
  const bool has_body = !message->body.empty();
  const bool has_trailers = !trailers.empty();
  own_reply_ = true;
  // The last call may end the stream; what it needs is ours until we return.
  stream().sendResponseHeaders(headers, !has_body && !has_trailers);
  if (has_body) {
    stream().sendResponseData(message->body, !has_trailers);
  }
  if (has_trailers) {
    stream().sendResponseTrailers(trailers);
  }
}

// --- The response -----------------------------------------------------------------------------

envoy::HeadersAction StreamFilter::onResponseHeaders(bool end) {
  if (fail_open_) {
    removeForged(stream().responseHeaders(), {ReplayedHeader, ExpiresHeader, StoredHeader});
    stream().responseHeaders().set(EnforcedHeader, "false");
  }
  if (state_ != State::Running && state_ != State::Gathering) {
    return envoy::HeadersAction::Continue;
  }
  removeForged(stream().responseHeaders(),
               {ReplayedHeader, ExpiresHeader, StoredHeader, EnforcedHeader});
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

// No response of the upstream, or only a part of one: Envoy, or another filter, answers.
void StreamFilter::settleUnanswered() {
  const StreamFacts facts = streamFacts(stream(), via_upstream_, false);
  const ResponseFacts response = cutResponse(facts);
  settleAndHold(storeAction(*policy_, classify(facts), response), response, std::nullopt);
}

ResponseFacts StreamFilter::cutResponse(const StreamFacts& facts) const {
  ResponseFacts response;
  response.status = upstream_status_;
  response.judged_status = upstream_status_;
  response.attempts = facts.attempts;
  return response;
}

void StreamFilter::finishResponse(envoy::Within within) {
  ResponseFacts response = responseFacts(stream());
  std::optional<StoredResponse> stored;
  if (state_ == State::Overflowing) {
    response.body_bytes = policy_->max_response_bytes + 1;
    response.storable = false;
  } else {
    response.body_bytes = stream().wholeBodySize(envoy::Direction::Response, within);
    std::optional<ResponseFields> fields = fieldsOf(stream(), *policy_);
    response.storable = fields.has_value();
    if (fields.has_value()) {
      stored = StoredResponse{response.status, std::move(fields->headers), bodyOf(stream(), within),
                              std::move(fields->trailers)};
    }
  }
  const Outcome outcome = classify(streamFacts(stream(), via_upstream_, true));
  settleAndHold(storeAction(*policy_, outcome, response), response, std::move(stored));
}

void StreamFilter::overflow() {
  state_ = State::Overflowing;
  // As far as can be told before the end.
  record_stays_ = !policy_->released_statuses.contains(upstream_status_);
  markResponse(true);
}

void StreamFilter::settleAndHold(const StoreAction& action, const ResponseFacts& response,
                                 std::optional<StoredResponse> stored) {
  const HeldClaim claim = *std::exchange(claim_, std::nullopt);
  state_ = State::Settling;
  settling_since_ = steady_clock::now();
  record_stays_ = action.kind != StoreActionKind::Release;
  traceOutcome(stream(), wordOf(action.kind, action.tombstone));
  std::shared_ptr<CompletedRecord> completed;
  std::string bytes;
  if (action.kind == StoreActionKind::Complete && action.tombstone == Tombstone::None) {
    bytes = serializeResponse(*stored);
    completed = std::make_shared<CompletedRecord>();
    completed->fingerprint = claim.fingerprint;
    completed->attempt = claim.ref.attempt;
    completed->expires_at = claim.expires_at;
    completed->live_until = claim.asked + policy_->ttl;
    completed->response = *std::move(stored);
  }
  const std::string error = action.kind == StoreActionKind::Fail
                                ? fmt::format("status_{}", response.judged_status)
                                : errorWord(stream());
  backend().settle(
      claim, endingOf(claim, action, response, std::move(bytes), error), std::move(completed),
      [this, mail = mailbox(), question = ++question_](Settled settled, const std::string&) {
        mail->post([this, question, settled] { onSettled(question, settled); });
      });
}

void StreamFilter::onSettled(uint64_t question, Settled settled) {
  if (state_ != State::Settling || question != question_) {
    return;
  }
  state_ = State::Passing;
  stream().record(stats().completion_us, microsecondsSince(settling_since_));
  const bool stored = settled == Settled::Done;
  if (!stored) {
    stream().increment(stats().not_stored);
    traceOutcome(stream(), "not_stored");
  }
  if (!headers_gone_) {
    markResponse(stored);
  }
  stream().continueResponse();
}

void StreamFilter::markResponse(bool stored) {
  const envoy::Headers headers = stream().responseHeaders();
  if (!stored) {
    headers.set(StoredHeader, "false");
  } else if (record_stays_ && expires_at_.has_value()) {
    headers.set(ExpiresHeader, formatHttpDate(secondsOf(*expires_at_)));
  }
  if (headers.get(AllowOriginHeader).has_value()) {
    const std::string_view exposed = headers.get(ExposeHeadersHeader).value_or("");
    if (const auto extended = exposedWithOwnHeaders(exposed)) {
      headers.set(ExposeHeadersHeader, *extended);
    }
  }
}

// --- The end ----------------------------------------------------------------------------------

void StreamFilter::onStreamComplete() {
  const bool whole =
      state_ == State::Passing || state_ == State::Answered || state_ == State::Settling;
  leaveRequest();
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

void StreamFilter::leaveRequest() {
  if (const Attempt attempt = std::exchange(asking_, 0); attempt != 0) {
    backend().store().abandon({identity_, attempt});
  }
  if (const Waiters::Ticket ticket = std::exchange(ticket_, 0); ticket != 0) {
    backend().waiters().remove(ticket);
  }
}

bool StreamFilter::settleAtEnd() {
  if (!claim_.has_value()) {
    return false;
  }
  const HeldClaim claim = *std::exchange(claim_, std::nullopt);
  const StreamFacts facts = streamFacts(stream(), via_upstream_, false);
  const ResponseFacts response = cutResponse(facts);
  const StoreAction action = storeAction(*policy_, classify(facts), response);
  traceOutcome(stream(), wordOf(action.kind, action.tombstone));
  if (action.kind == StoreActionKind::Leave) {
    backend().redirects().give(claim, steady_clock::now());
    return true;
  }
  backend().settle(claim, endingOf(claim, action, response, {}, errorWord(stream())), nullptr,
                   nullptr);
  return false;
}

Ending StreamFilter::endingOf(const HeldClaim& claim, const StoreAction& action,
                              const ResponseFacts& response, std::string bytes,
                              std::string error) const {
  switch (action.kind) {
    case StoreActionKind::Complete: {
      CompleteRequest complete;
      complete.claim = claim.ref;
      complete.status = response.status;
      complete.tombstone = action.tombstone;
      complete.response_schema = RecordSchema;
      complete.response = std::move(bytes);
      return complete;
    }
    case StoreActionKind::Fail:
      return FailRequest{claim.ref, std::move(error)};
    case StoreActionKind::Release:
      return ReleaseRequest{claim.ref};
    case StoreActionKind::Leave:
    case StoreActionKind::MarkUnknown:
      break;
  }
  return UnknownRequest{claim.ref, std::move(error), backend().settings().reconcile_after};
}

}  // namespace idempotency
