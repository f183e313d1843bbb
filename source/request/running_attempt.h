#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "source/protocol/declared_outcome.h"
#include "source/protocol/outcome.h"
#include "source/protocol/policy.h"
#include "source/protocol/record.h"
#include "source/request/claim_keeper.h"
#include "source/request/late_answer.h"
#include "source/request/upstream_response.h"
#include "source/runtime/admission.h"
#include "source/runtime/held_claim.h"
#include "source/runtime/replay_cache.h"
#include "source/runtime/settler.h"
#include "source/store/store.h"

namespace idempotency::request {

// The stream of an attempt. It calls these on the stream's worker, inside a hook or a posted task.
class AttemptStream {
public:
  virtual ~AttemptStream() = default;

  virtual Post post() = 0;
  // Of the request's identity.
  virtual const std::string& keyHash() const = 0;
  // The response that was held may go to the client. The attempt's last call in a task, because it
  // may end the stream.
  virtual void continueResponse() = 0;
  // The same, but the client gets this one in place of the response that was held. False, and
  // nothing was done: it cannot be sent.
  virtual bool continueWith(const runtime::CompletedRecord& completed) = 0;

  // --- For statistics and access logs.
  // This is how the attempt ends; it is about to be written.
  virtual void onEnding(const protocol::AttemptEnding& ending) = 0;
  // It was written, or not in time. `since`: when the write began.
  virtual void onWritten(bool stored, store::Deadline since) = 0;
  // It was not: the upstream had completed the record in its own transaction.
  virtual void onCompletedByUpstream(store::Deadline since) = 0;
  // There is no room to hold the response: it cannot be replayed.
  virtual void onNoRoomForResponse() = 0;
};

// A claimed request, from the call of the upstream to the end of its claim: observes the response,
// judges the outcome, has it written, and holds the response until that is done. If it turns out
// that the upstream has completed the record in its own transaction, the client gets that result,
// provided that the headers of the response are still here.
//
//   Running ── headers ─▶ Gathering ── the end ─▶ Settling ── written ─▶ Over
//                             │                      ▲
//                             │ too long to be held  │
//                             └──▶ Overflowing ──────┘ the end
//
// The claim belongs to this object until the keeper has it, so it is settled exactly once: what
// throws on the way leaves it to end(), and then to the destructor.
//
// Worker thread of the stream. `place` is the request's; everything that is passed by reference
// outlives the attempt.
class RunningAttempt {
public:
  enum class Phase : uint8_t {
    Running,      // The request was forwarded; no response yet.
    Gathering,    // The response is being received, and held.
    Overflowing,  // The response streams on; it will not be replayed.
    Settling,     // The outcome is being written; the response, or its last part, is held.
    Over,         // Nothing of it concerns the stream any more.
  };

  RunningAttempt(ClaimKeeper& keeper, AttemptStream& stream, UpstreamResponse& response,
                 runtime::Admission::Place& place, runtime::HeldClaim claim) noexcept;
  // Without end(), or if that threw, the outcome is unknown. The stream is not used.
  ~RunningAttempt();
  RunningAttempt(const RunningAttempt&) = delete;
  RunningAttempt& operator=(const RunningAttempt&) = delete;

  Phase phase() const { return phase_; }
  bool holdsResponse() const { return phase_ == Phase::Gathering || phase_ == Phase::Settling; }
  // Whether its outcome is not known yet.
  bool isOpen() const { return claim_.has_value(); }
  // Only while it is open.
  const runtime::HeldClaim& claim() const { return *claim_; }

  // --- The response of the upstream. `end`: nothing follows.
  void onHeaders(bool end);
  void onBody(bool end);
  void onTrailers();
  // Envoy or another filter answers: there is no response of the upstream, or only a part of one.
  // Only while it is open.
  void onOtherAnswer();
  // The response that is held is not sent: another takes its place.
  void stopHolding();

  // The stream ends, and with it the attempt, unless the request continues in another stream: then
  // it returns true.
  bool end();

private:
  // What is known about the attempt while its response is incomplete.
  protocol::Observation observe() const;
  // What the upstream declares in headers and trailers together.
  protocol::DeclaredOutcome declaredInAll();
  void gather(bool end);
  // The response cannot be held: it goes to the client.
  void overflow();
  void finish();
  // Has the outcome written, and holds the response until that is done. `stored` is set if and only
  // if the response is stored.
  void settle(const protocol::AttemptEnding& ending, const protocol::Observation& seen,
              std::optional<protocol::StoredResponse> stored);
  // Only with a claim.
  std::optional<std::chrono::milliseconds> reconcileAfter() const;
  void onSettled(const runtime::SettleReport& report);
  void mark(bool stored);

  ClaimKeeper& keeper_;
  AttemptStream& stream_;
  UpstreamResponse& response_;
  runtime::Admission::Place& place_;
  const std::shared_ptr<const protocol::Policy> policy_;
  const store::StoreTime expires_at_;  // Of the record,
  const store::Deadline live_until_;   // and the same by HeldClaim::liveUntil().
  std::optional<runtime::HeldClaim> claim_;

  Phase phase_ = Phase::Running;
  LateAnswer answer_;          // Of the keeper.
  bool via_upstream_ = false;  // A response of the upstream has started.
  bool headers_gone_ = false;  // The response's headers were sent to the client.
  bool record_stays_ = false;  // After settling: there is a record, with an expiry.
  int status_ = 0;             // The upstream's.
  protocol::DeclaredOutcome declared_ =
      protocol::DeclaredOutcome::None;  // By the upstream, in its headers.
  bool declares_later_ = false;         // The headers announce a declaration in the trailers.
  std::string error_text_;              // The beginning of an error's body that streams on.
  store::Deadline settling_since_{};
};

// One word for how an attempt ended, for access logs.
std::string_view wordOf(const protocol::AttemptEnding& ending);

}  // namespace idempotency::request
