// The way from the whole request to a claim or to an answer of our own.
#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <variant>
#include <vector>

#include "source/filter/key_hash.h"
#include "source/filter/stream_filter.h"
#include "source/filter/times.h"
#include "source/protocol/answer.h"
#include "source/protocol/fingerprint_match.h"
#include "source/protocol/grpc.h"
#include "source/protocol/header_names.h"
#include "source/protocol/overloaded.h"
#include "source/protocol/replay.h"
#include "source/store/audit.h"

namespace idempotency {
namespace {

using std::chrono::steady_clock;

// How often one request claims again before it gives way: each time somebody else was faster.
constexpr uint32_t MostReclaims = 8;

void appendFields(const FieldList& list, std::vector<envoy::Field>& fields) {
  fields.reserve(fields.size() + list.size());
  for (const auto& [name, value] : list) {
    fields.emplace_back(name, value);
  }
}

std::string_view viewOf(const Fingerprint& fingerprint) {
  return {reinterpret_cast<const char*>(fingerprint.data()), fingerprint.size()};
}

}  // namespace

StreamFilter::Verdict StreamFilter::ask(envoy::Within within) {
  identity_ = identityOf(stream(), *policy_, request_);
  const bool cached = findCached();
  trace_.onIdentity(identity_, cached ? completed_->key_hash : keyHash(identity_));
  const auto fingerprint = fingerprintOf(stream(), *policy_, request_.principal, within);
  if (!fingerprint.has_value()) {
    return judge(storeFailed("the request cannot be hashed"));
  }
  fingerprint_ = fingerprint->fingerprint;
  if (fingerprint->body_form == BodyForm::RejectedJson) {
    stream().increment(stats().json_rejected);
  }
  if (cached) {
    return judge(foundCached(within));
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

bool StreamFilter::findCached() {
  completed_ = backend().cache().find(identity_, steady_clock::now());
  return completed_ != nullptr;
}

StoreResult StreamFilter::foundCached(envoy::Within within) {
  stream().increment(stats().replay_cached);
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
  trace_.onAttempt(stream(), ref.attempt);
  backend().keepAlive(*claim_);
  const envoy::Headers headers = stream().requestHeaders();
  // Whatever the client sent under these names: the upstream must be able to believe them.
  const fmt::format_int attempt(ref.attempt);
  headers.set(AttemptHeader, {attempt.data(), attempt.size()});
  headers.remove({RecoveryPointHeader});
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
  backend().onFailOpen();
  trace_.onOutcome(stream(), "fail_open");
  stream().requestHeaders().remove({AttemptHeader, RecoveryPointHeader});
  fail_open_ = true;
  state_ = State::Passing;
  return Verdict::Continue;
}

void StreamFilter::onWoken() {
  ticket_ = 0;
  // Most often what ran has been stored, and kept here, just now.
  if (findCached()) {
    resume(foundCached(envoy::Within::OtherHook));
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
  completed_ = completedRecord(record, asked_, trace_.keyHash());
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
  const auto count_tenant = [this](StatSink::Labelled counter) {
    backend().stats().count(stream(), stats(), counter,
                            backend().tenantLabels().labelFor(identity_.tenant));
  };
  const auto duplicate = [&] { count_tenant(&Stats::tenant_duplicates); };
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
      count_tenant(&Stats::tenant_key_misuses);
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
  trace_.onOutcome(stream(), code);
  AnswerContext context;
  context.grpc = isGrpc(stream().requestHeaders().get("content-type").value_or(""));
  if (expires_at_.has_value()) {
    context.expires_at = secondsOf(*expires_at_);
  }
  const HttpAnswer rendered = renderAnswer(policy, answer, context);
  std::vector<envoy::Field> headers;
  appendFields(rendered.headers, headers);
  own_reply_ = true;
  stream().sendLocalReply(static_cast<uint32_t>(rendered.status), headers, rendered.body, code);
}

void StreamFilter::replay() {
  std::optional<ReplayMessage> for_head;
  if (request_.head) {
    for_head = buildReplay(completed_->response,
                           {.head = true, .expires_at = secondsOf(completed_->expires_at)});
  }
  const std::optional<ReplayMessage>& message =
      for_head.has_value() ? for_head : completed_->replay();
  if (!message.has_value()) {
    answer(*policy_, Answer{.problem = Problem::ResponseUnavailable,
                            .original_status = completed_->response.status});
    return;
  }
  state_ = State::Answered;
  trace_.onReplay(stream());
  const fmt::format_int status(message->status);
  std::vector<envoy::Field> headers = {{":status", {status.data(), status.size()}}};
  appendFields(message->headers, headers);
  std::vector<envoy::Field> trailers;
  appendFields(message->trailers, trailers);
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

}  // namespace idempotency
