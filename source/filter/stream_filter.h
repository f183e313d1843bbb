#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "source/envoy/filter.h"
#include "source/filter/backend.h"
#include "source/filter/held_claim.h"
#include "source/filter/module_config.h"
#include "source/filter/replay_cache.h"
#include "source/filter/request_reader.h"
#include "source/filter/settler.h"
#include "source/filter/store_results.h"
#include "source/filter/trace.h"
#include "source/protocol/decide.h"
#include "source/protocol/policy.h"
#include "source/protocol/store_action.h"
#include "source/store/store.h"

namespace idempotency {

// One request. Turns what Envoy and the store show into values, asks `protocol`, does what it says.
//
//   Passing ── a covered request with a good key ─▶ Buffering ── its end ─▶ Asking ◀──▶ Waiting
//                                                                            │   │
//             Answered ◀── refused, or replayed ─────────────────────────────┘   │ claimed
//                                                                                ▼
//   Passing ◀── Settling ◀── the response's end ── Gathering ◀── its headers ── Running
//      ▲            ▲                                  │ too long to be held
//      │            └────── the end ── Overflowing ◀───┘
//      └── (the answer goes to the client)
//
// Whoever leaves Running, Gathering or Overflowing hands claim_ to the backend, which writes how it
// ended whatever becomes of the stream: so each claim is settled exactly once. Any hook may find
// the filter in any state: Envoy or another filter can answer, and the client can leave, at any
// time.
class StreamFilter : public envoy::Filter {
public:
  StreamFilter(envoy::Stream stream, const ModuleConfig& config)
      : Filter(stream), config_(config) {}
  ~StreamFilter() override;

  // envoy::Filter
  envoy::HeadersAction onRequestHeaders(bool end) override;
  envoy::BodyAction onRequestBody(bool end) override;
  envoy::TrailersAction onRequestTrailers() override;
  envoy::HeadersAction onResponseHeaders(bool end) override;
  envoy::BodyAction onResponseBody(bool end) override;
  envoy::TrailersAction onResponseTrailers() override;
  envoy::LocalReplyAction onLocalReply(uint32_t code, std::string_view details,
                                       bool reset_imminent) override;
  void onStreamComplete() override;

private:
  enum class State : uint8_t {
    Passing,      // Not ours, or not ours any more: everything goes through.
    Buffering,    // The request is being gathered; nothing is claimed.
    Asking,       // The store has been asked; the request is held.
    Waiting,      // Another request with this key runs; this one is held.
    Running,      // The request is claimed and on its way; no response yet.
    Gathering,    // The response is being gathered.
    Overflowing,  // The response streams on; it will not be replayed.
    Settling,     // How it ended is being written; the answer, or its last part, is held.
    Answered,     // We answered.
  };
  // Whether the request goes on now.
  enum class Verdict : uint8_t { Hold, Continue };

  // --- The request
  bool resumeAfterRedirect();
  void pass(std::string_view method, PassReason reason);
  void buffer(RequestReading request, std::shared_ptr<const Policy> policy);
  // The whole request is here.
  Verdict ask(envoy::Within within);
  void countIn();
  // Into completed_.
  bool findCached();
  StoreResult foundCached(envoy::Within within);
  void askToClaim(std::optional<ReclaimFrom> from);
  void askToLookUp();
  void onClaimResult(uint64_t question, ClaimResult result);
  void onLookUpResult(uint64_t question, LookUpResult result);
  void onWoken();
  // After an answer of the store, outside the request's hooks. TERMINAL.
  void resume(const StoreResult& result);
  // What the answer means. TERMINAL where it is Hold.
  Verdict judge(const StoreResult& result);
  Verdict apply(const Decision& decision);
  Verdict reclaim(const Reclaim& reclaim);
  Verdict run();
  Verdict wait(const Wait& wait);
  Verdict failOpen();
  StoreResult grant(const Claimed& claimed);
  StoreResult found(const Record& record);
  StoreFailed storeFailed(std::string_view reason);
  FingerprintMatch match(const std::string& stored, envoy::Within within) const;
  void countFound(const Decision& decision) const;
  void countClaim() const;

  // --- Answers of our own. TERMINAL.
  void answer(const Policy& policy, const Answer& answer);
  void replay();

  // --- The response
  void settleUnanswered();
  void finishResponse(envoy::Within within);
  void overflow();
  // Writes how the attempt ended and holds the answer until that is done. `stored` is there exactly
  // where the action keeps the response.
  void settleAndHold(const StoreAction& action, const ResponseFacts& response,
                     std::optional<StoredResponse> stored);
  void onSettled(uint64_t question, Settled settled);
  void markResponse(bool stored);

  // What is known of a response that did not come whole.
  ResponseFacts cutResponse(const StreamFacts& facts) const;

  // --- The end
  // The request is over before it ran: whoever was asked need not answer.
  void leaveRequest();
  // The stream ends, and with it the attempt: unless the request goes on in another stream, which
  // is what it returns.
  bool settleAtEnd();
  Ending endingOf(const HeldClaim& claim, const StoreAction& action, const ResponseFacts& response,
                  std::string bytes, std::string error) const;

  const Stats& stats() const { return config_.stats(); }
  Backend& backend() const { return config_.backend(); }

  const ModuleConfig& config_;  // Envoy keeps it alive longer than its streams.
  State state_ = State::Passing;
  bool entered_ = false;       // Counted among the requests in flight.
  bool fail_open_ = false;     // Runs unprotected.
  bool own_reply_ = false;     // The local reply that comes is ours.
  bool via_upstream_ = false;  // A response of the upstream has begun.
  bool local_reply_ = false;   // Somebody else answered in its place.
  bool headers_gone_ = false;  // The response's headers are on their way to the client.
  bool record_stays_ = false;  // After settling: there is a record, with an end of its life.
  bool took_token_ = false;    // Of the tenant's key rate.
  uint64_t question_ = 0;      // Numbers what was asked; late answers to older ones are dropped.
  uint32_t reclaims_ = 0;

  Trace trace_;
  std::shared_ptr<const Policy> policy_;
  RequestReading request_;
  Identity identity_;
  Fingerprint fingerprint_{};
  Deadline asked_{};                     // When the store was last asked.
  Deadline waits_since_{};               // Begin of the first wait.
  Attempt asking_ = 0;                   // The attempt of a claim whose fate we do not know yet.
  uint64_t ticket_ = 0;                  // Among the waiters.
  std::optional<StoreTime> expires_at_;  // Of the record that is there.
  std::shared_ptr<const CompletedRecord> completed_;  // What a replay sends.
  std::string recovery_point_;
  std::optional<RecordState> reclaims_from_;  // The claim is not the record's first.
  Attempt seen_attempt_ = 0;                  // Of the record that was found.
  int upstream_status_ = 0;
  Deadline settling_since_{};
  std::optional<HeldClaim> claim_;
};

}  // namespace idempotency
