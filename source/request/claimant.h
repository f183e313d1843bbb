#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <absl/status/status.h>

#include "source/fingerprint/fingerprint.h"
#include "source/protocol/decide.h"
#include "source/protocol/policy.h"
#include "source/protocol/record.h"
#include "source/request/late_answer.h"
#include "source/runtime/admission.h"
#include "source/runtime/held_claim.h"
#include "source/runtime/key_rate.h"
#include "source/runtime/replay_cache.h"
#include "source/runtime/waiters.h"
#include "source/store/store.h"

namespace idempotency::request {

// What the claimants of a process share. It outlives them.
struct ClaimServices {
  store::Store& store;
  runtime::ReplayCache& cache;
  runtime::Waiters& waiters;
  runtime::KeyRate& key_rate;
  std::chrono::milliseconds store_timeout{};
  std::optional<uint64_t> tenant_live_keys;  // None: no limit.
};

// What happens on the way to a decision, for statistics.
enum class ClaimEvent : uint8_t {
  JsonRejected,       // The body is not hashed as JSON, although its type says JSON.
  FoundInCache,       // The record did not come from the store.
  WaitStarted,        // The first wait of this request.
  QueueFull,          // The store's queue in this process is full.
  GrantedAfterLease,  // The claim was granted, but its lease had already expired.
};

// The request continues when the claimant calls onNext().
struct Hold {
  bool operator==(const Hold&) const = default;
};
// What a request does next. The first alternative refuses, so that a zeroed value refuses, too.
// Run: take the claim, and call the upstream. Replay: of completed(). Pass: run without a claim.
using Next = std::variant<protocol::Answer, Hold, protocol::Pass, protocol::Run, protocol::Replay>;

// The stream of a claimant. It calls these on the stream's worker, inside a hook or a posted task.
class ClaimantStream {
public:
  virtual ~ClaimantStream() = default;

  virtual Post post() = 0;
  // The request's fingerprint by a version of the algorithm. None if it cannot be computed.
  virtual std::optional<fingerprint::FingerprintResult> fingerprint(uint8_t version) = 0;
  // The request is held from now on: it takes a place among the requests in flight, unless it has
  // one.
  virtual runtime::Refusal enter() = 0;
  // The request waits for another one.
  virtual runtime::Refusal beginWait() = 0;
  // What follows a Hold, never another Hold. The claimant's last call in a task, because it may end
  // the stream.
  virtual void onNext(const Next& next) = 0;

  // --- For statistics and logs.
  virtual void onEvent(ClaimEvent event) = 0;
  // There is a record, and this follows from it.
  virtual void onFound(const protocol::Decision& decision) = 0;
  // The store answered a claim that was requested at this time.
  virtual void onClaimAnswered(store::Deadline asked) = 0;
  virtual void onStoreError(std::string_view reason) = 0;
  // There is a stored response, but this build cannot read it.
  virtual void onUnreadable(const absl::Status& why) = 0;
};

// The answer to a request that there is no room for.
[[nodiscard]] protocol::Answer answerTo(runtime::Refusal refusal, const protocol::Policy& policy);

// A complete request on its way to a decision: asks the cache and the store, claims again, and
// waits, until the request runs, is replayed or is refused.
//
// Worker thread of the stream. When destroyed, or after leave(), nothing of it is left behind: a
// claim whose result is pending is abandoned, as is one that was granted and not taken.
class Claimant {
public:
  // Looks into the cache. `async_wait`: see ClaimFacts.
  Claimant(const ClaimServices& services, ClaimantStream& stream,
           std::shared_ptr<const protocol::Policy> policy, protocol::Identity identity,
           std::optional<std::chrono::milliseconds> async_wait = std::nullopt);
  ~Claimant();
  Claimant(const Claimant&) = delete;
  Claimant& operator=(const Claimant&) = delete;

  // Once, inside the hook in which the request is complete.
  [[nodiscard]] Next start();
  // The request ends before it ran: onNext() is not called any more.
  void leave();

  const protocol::Identity& identity() const { return identity_; }
  // See keyHash().
  const std::string& keyHash() const { return key_hash_; }
  // When the record expires; none if there is no record, or if it has no end.
  std::optional<store::StoreTime> expiresAt() const { return expires_at_; }

  // --- After Replay
  const runtime::CompletedRecord& completed() const { return *completed_; }

  // --- After Run
  // Once: from now on the caller must settle the claim. Does not throw.
  runtime::HeldClaim takeClaim();
  const std::string& recoveryPoint() const { return recovery_point_; }
  // The state of the record that was claimed again; none if the claim created the record.
  std::optional<protocol::RecordState> reclaimedFrom() const { return reclaims_from_; }

private:
  void askToClaim(std::optional<store::ReclaimFrom> from);
  void askToLookUp();
  void onClaimResult(const store::ClaimResult& result);
  void onLookUpResult(const store::LookUpResult& result);
  void onWoken();

  // After an answer, outside the request's hooks.
  void resume(const protocol::StoreResult& result);
  Next judge(const protocol::StoreResult& result);
  Next follow(const protocol::Decision& decision);
  Next reclaim(const protocol::Reclaim& again);
  Next wait(const protocol::Wait& hold);

  bool findCached();
  protocol::StoreResult foundCached();
  protocol::StoreResult grant(const store::Claimed& claimed);
  protocol::StoreResult found(const store::Record& record);
  protocol::StoreFailed storeFailed(std::string_view reason);
  protocol::StoreResult unavailable(const store::Unavailable& failure);
  protocol::FingerprintMatch match(const std::string& stored);

  const ClaimServices services_;
  ClaimantStream& stream_;
  const std::shared_ptr<const protocol::Policy> policy_;
  const protocol::Identity identity_;
  const std::optional<std::chrono::milliseconds> async_wait_;
  std::string key_hash_;
  fingerprint::Fingerprint fingerprint_{};
  LateAnswer answer_;        // Of the store, or of the waiters.
  bool took_token_ = false;  // Of the tenant's key rate.
  uint32_t reclaims_ = 0;
  store::Deadline asked_{};                             // When the store was last asked.
  store::Deadline waits_since_{};                       // Begin of the first wait.
  protocol::Attempt asking_ = 0;                        // Of a claim whose result is still pending.
  runtime::Waiters::Ticket ticket_;                     // Null if it does not wait.
  protocol::Attempt seen_attempt_ = 0;                  // Of the record that was found.
  std::optional<store::StoreTime> expires_at_;          // Of the existing record.
  std::optional<protocol::RecordState> reclaims_from_;  // The claim is not the record's first.
  std::string recovery_point_;
  std::shared_ptr<const runtime::CompletedRecord> completed_;  // What a replay sends.
  std::optional<runtime::HeldClaim> granted_;                  // Until it is taken.
};

}  // namespace idempotency::request
