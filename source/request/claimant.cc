#include "source/request/claimant.h"

#include <algorithm>
#include <utility>

#include "source/protocol/fingerprint_match.h"
#include "source/protocol/key_hash.h"
#include "source/protocol/overloaded.h"
#include "source/request/store_results.h"

namespace idempotency::request {
namespace {

using std::chrono::steady_clock;

// How often a request tries to claim again before it gives up; each time, another one was faster.
constexpr uint32_t MostReclaims = 8;

std::string_view viewOf(const fingerprint::Fingerprint& fingerprint) {
  return {reinterpret_cast<const char*>(fingerprint.data()), fingerprint.size()};
}

protocol::StoreResult factOf(runtime::Refusal refusal, const protocol::Policy& policy) {
  switch (refusal) {
    case runtime::Refusal::InFlight:
    case runtime::Refusal::Bytes:
      return protocol::NoRoom{};
    case runtime::Refusal::TenantInFlight:
    case runtime::Refusal::TenantBytes:
    case runtime::Refusal::TenantWaiters:
    case runtime::Refusal::None:
      break;
  }
  return protocol::QuotaReached{policy.in_flight.retry_after};
}

// A record whose outcome is unknown does not expire, so no expiry time is sent. Neither is one that
// has passed while the request runs: its completion sets another.
bool isEndless(const store::Record& record) {
  return record.state == protocol::RecordState::Unknown ||
         (record.state == protocol::RecordState::InProgress &&
          (!record.lease_alive || record.past_life));
}

}  // namespace

protocol::Answer answerTo(runtime::Refusal refusal, const protocol::Policy& policy) {
  const protocol::Decision decision = protocol::decide(policy, {}, factOf(refusal, policy));
  const auto* answer = std::get_if<protocol::Answer>(&decision);
  return answer != nullptr ? *answer : protocol::Answer{};
}

Claimant::Claimant(const ClaimServices& services, ClaimantStream& stream,
                   std::shared_ptr<const protocol::Policy> policy, protocol::Identity identity,
                   std::optional<std::chrono::milliseconds> async_wait)
    : services_(services),
      stream_(stream),
      policy_(std::move(policy)),
      identity_(std::move(identity)),
      async_wait_(async_wait) {
  key_hash_ = findCached() ? completed_->key_hash : protocol::keyHash(identity_);
}

Claimant::~Claimant() {
  leave();
}

void Claimant::leave() {
  answer_.drop();
  if (const protocol::Attempt attempt = std::exchange(asking_, 0); attempt != 0) {
    services_.store.abandon({identity_, attempt});
  }
  if (granted_.has_value()) {
    services_.store.abandon(takeClaim().ref);
  }
  if (const runtime::Waiters::Ticket ticket = std::exchange(ticket_, nullptr)) {
    services_.waiters.remove(ticket);
  }
}

runtime::HeldClaim Claimant::takeClaim() {
  runtime::HeldClaim claim = *std::move(granted_);
  granted_.reset();
  return claim;
}

// --- Questions and answers --------------------------------------------------------------------

Next Claimant::start() {
  const auto fingerprint = stream_.fingerprint(fingerprint::FingerprintVersion);
  if (!fingerprint.has_value()) {
    return judge(storeFailed("the request could not be hashed"));
  }
  fingerprint_ = fingerprint->fingerprint;
  if (fingerprint->body_form == fingerprint::BodyForm::RejectedJson) {
    stream_.onEvent(ClaimEvent::JsonRejected);
  }
  if (completed_ != nullptr) {
    return judge(foundCached());
  }
  if (const runtime::Refusal refusal = stream_.enter(); refusal != runtime::Refusal::None) {
    return answerTo(refusal, *policy_);
  }
  took_token_ = services_.key_rate.take(identity_.tenant, steady_clock::now());
  if (took_token_) {
    askToClaim(std::nullopt);
  } else {
    askToLookUp();
  }
  return Hold{};
}

void Claimant::askToClaim(std::optional<store::ReclaimFrom> from) {
  asked_ = steady_clock::now();
  asking_ = store::newAttempt();
  reclaims_from_ = from.has_value() ? std::optional(from->state) : std::nullopt;
  store::ClaimRequest request;
  request.identity = identity_;
  request.fingerprint = viewOf(fingerprint_);
  request.attempt = asking_;
  request.lease = policy_->lease;
  request.ttl = policy_->ttl;
  request.on_lease_expired = policy_->on_lease_expired;
  request.own_transaction = policy_->own_transaction;
  request.from = from;
  request.tenant_live_keys = services_.tenant_live_keys;
  services_.store.claim(std::move(request), asked_ + services_.store_timeout,
                        answer_.expect(stream_.post(), [this](const store::ClaimResult& result) {
                          onClaimResult(result);
                        }));
}

void Claimant::askToLookUp() {
  asked_ = steady_clock::now();
  services_.store.lookUp(identity_, asked_ + services_.store_timeout,
                         answer_.expect(stream_.post(), [this](const store::LookUpResult& result) {
                           onLookUpResult(result);
                         }));
}

void Claimant::onClaimResult(const store::ClaimResult& result) {
  stream_.onClaimAnswered(asked_);
  const protocol::StoreResult facts = std::visit(
      protocol::Overloaded{
          [&](const store::Unavailable& failure) -> protocol::StoreResult {
            return unavailable(failure);
          },
          [&](const store::InDoubt& doubt) -> protocol::StoreResult {
            return storeFailed(doubt.reason);
          },
          [&](const store::OverQuota& quota) -> protocol::StoreResult {
            return protocol::QuotaReached{
                std::max(std::chrono::ceil<std::chrono::seconds>(quota.retry_after),
                         std::chrono::seconds(1))};
          },
          [&](const store::Claimed& claimed) -> protocol::StoreResult { return grant(claimed); },
          [&](const store::Exists& exists) -> protocol::StoreResult {
            return found(exists.record);
          },
      },
      result);
  if (!std::holds_alternative<protocol::ClaimGranted>(facts)) {
    asking_ = 0;
    if (std::exchange(took_token_, false)) {
      services_.key_rate.giveBack(identity_.tenant);  // No new key after all.
    }
  }
  resume(facts);
}

void Claimant::onLookUpResult(const store::LookUpResult& result) {
  resume(std::visit(
      protocol::Overloaded{
          [&](const store::Unavailable& failure) -> protocol::StoreResult {
            return unavailable(failure);
          },
          [&](const store::Absent&) -> protocol::StoreResult { return protocol::QuotaReached{}; },
          [&](const store::Record& record) -> protocol::StoreResult { return found(record); },
      },
      result));
}

void Claimant::onWoken() {
  ticket_ = nullptr;
  // Usually the response has just been stored, and is in the cache.
  if (findCached()) {
    resume(foundCached());
  } else {
    askToClaim(std::nullopt);
  }
}

// --- Decisions --------------------------------------------------------------------------------

void Claimant::resume(const protocol::StoreResult& result) {
  const Next next = judge(result);
  if (!std::holds_alternative<Hold>(next)) {
    stream_.onNext(next);
  }
}

Next Claimant::judge(const protocol::StoreResult& result) {
  protocol::ClaimFacts facts;
  facts.async_wait = async_wait_;
  if (waits_since_ != store::Deadline{}) {
    facts.waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - waits_since_);
  }
  const protocol::Decision decision = protocol::decide(*policy_, facts, result);
  if (std::holds_alternative<protocol::RecordFound>(result)) {
    stream_.onFound(decision);
  }
  return follow(decision);
}

Next Claimant::follow(const protocol::Decision& decision) {
  return std::visit(protocol::Overloaded{
                        [&](const protocol::Answer& refusal) -> Next { return refusal; },
                        [&](const protocol::Pass& pass) -> Next { return pass; },
                        [&](const protocol::Reclaim& again) -> Next { return reclaim(again); },
                        [&](const protocol::Run& run) -> Next {
                          return granted_.has_value() ? Next(run) : Next(protocol::Answer{});
                        },
                        [&](const protocol::Replay& replay) -> Next { return replay; },
                        [&](const protocol::Wait& hold) -> Next { return wait(hold); },
                    },
                    decision);
}

Next Claimant::reclaim(const protocol::Reclaim& again) {
  if (++reclaims_ > MostReclaims) {
    return protocol::Answer{.problem = protocol::Problem::InProgress,
                            .retry_after = policy_->in_flight.retry_after};
  }
  askToClaim(store::ReclaimFrom{again.from_state, again.from_attempt});
  return Hold{};
}

Next Claimant::wait(const protocol::Wait& hold) {
  if (const runtime::Refusal refusal = stream_.beginWait(); refusal != runtime::Refusal::None) {
    return answerTo(refusal, *policy_);
  }
  const store::MonotonicTime now = steady_clock::now();
  if (waits_since_ == store::Deadline{}) {
    waits_since_ = now;
    stream_.onEvent(ClaimEvent::WaitStarted);
  }
  ticket_ = services_.waiters.add(identity_, seen_attempt_, now, now + hold.at_most,
                                  answer_.expect(stream_.post(), [this] { onWoken(); }));
  return Hold{};
}

// --- Facts ------------------------------------------------------------------------------------

bool Claimant::findCached() {
  completed_ = services_.cache.find(identity_, steady_clock::now());
  return completed_ != nullptr;
}

protocol::StoreResult Claimant::foundCached() {
  stream_.onEvent(ClaimEvent::FoundInCache);
  expires_at_ = completed_->expires_at;
  return factsOf(*completed_, [this](const std::string& stored) { return match(stored); });
}

// The only way to a claim. The attempt counts as pending until the claim is complete: what throws
// before leaves it to leave().
protocol::StoreResult Claimant::grant(const store::Claimed& claimed) {
  runtime::HeldClaim claim;
  claim.ref = {identity_, claimed.attempt, policy_->own_transaction};
  claim.fingerprint = viewOf(fingerprint_);
  claim.policy = policy_;
  claim.expires_at = claimed.expires_at;
  claim.asked = asked_;
  // After a pause of this process, others may already regard the claim as expired. Nothing ran, so
  // it is given back.
  if (!claim.leaseLives(steady_clock::now())) {
    stream_.onEvent(ClaimEvent::GrantedAfterLease);
    services_.store.abandon(claim.ref);
    return storeFailed("the claim was granted after its lease expired");
  }
  recovery_point_ = claimed.recovery_point;
  expires_at_ = claimed.expires_at;
  granted_ = std::move(claim);
  asking_ = 0;
  return protocol::ClaimGranted{};
}

protocol::StoreResult Claimant::found(const store::Record& record) {
  expires_at_ = isEndless(record) ? std::nullopt : std::optional(record.expires_at);
  seen_attempt_ = record.attempt;
  auto completed = completedRecord(record, asked_, key_hash_);
  if (!completed.ok()) {
    stream_.onUnreadable(completed.status());
  }
  completed_ = completed.ok() ? *std::move(completed) : nullptr;
  if (completed_ != nullptr && !record.past_life) {
    services_.cache.insert(identity_, completed_, steady_clock::now());
  }
  return factsOf(record, completed_.get(),
                 [this](const std::string& stored) { return match(stored); });
}

protocol::StoreFailed Claimant::storeFailed(std::string_view reason) {
  stream_.onStoreError(reason);
  return {};
}

// A full queue in this process is not a store failure: it may be full of one client's requests,
// which must not make the requests of others run unprotected.
protocol::StoreResult Claimant::unavailable(const store::Unavailable& failure) {
  if (failure.queue_full) {
    stream_.onEvent(ClaimEvent::QueueFull);
    return protocol::NoRoom{};
  }
  return storeFailed(failure.reason);
}

protocol::FingerprintMatch Claimant::match(const std::string& stored) {
  const protocol::Recompute recompute =
      [this](uint8_t version) -> std::optional<fingerprint::Fingerprint> {
    const auto result = stream_.fingerprint(version);
    return result.has_value() ? std::optional(result->fingerprint) : std::nullopt;
  };
  return protocol::matchFingerprint(stored, fingerprint_, recompute);
}

}  // namespace idempotency::request
