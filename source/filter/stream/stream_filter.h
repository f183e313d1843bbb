#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/status.h>

#include "source/envoy/filter.h"
#include "source/filter/backend/backend.h"
#include "source/filter/stream/module_config.h"
#include "source/filter/stream/request_reader.h"
#include "source/filter/stream/response_reader.h"
#include "source/filter/stream/stream_counts.h"
#include "source/filter/stream/trace.h"
#include "source/fingerprint/fingerprint.h"
#include "source/message/answer.h"
#include "source/protocol/decide.h"
#include "source/protocol/outcome.h"
#include "source/protocol/policy.h"
#include "source/request/claimant.h"
#include "source/request/detached_run.h"
#include "source/request/late_answer.h"
#include "source/request/running_attempt.h"
#include "source/request/status_query.h"
#include "source/runtime/admission.h"
#include "source/runtime/alarms.h"
#include "source/store/store.h"

namespace idempotency::filter {

// One request. Envoy's hooks, and what its two parts say to do: the Claimant decides whether the
// request runs, and the RunningAttempt what becomes of its response. If it is to run detached, it
// goes to the private listener, where a RunFilter has the RunningAttempt, and only the response
// comes back.
//
//   Passing ── a covered request with a good key ─▶ Buffering ── its end ─▶ Claiming
//      ▲                                                                     │   │
//      │           Answered ◀── refused, or replayed ────────────────────────┘   │ claimed
//      ├── (with a RunningAttempt) ──────────────────────────────────────────────┤
//      │                                                                         │
//      └── another answer ── Detached (with a DetachedRun) ◀─────────────────────┘
//
// Any hook may find the filter in any state: Envoy or another filter can answer, and the client can
// disconnect, at any time.
class StreamFilter : public envoy::Filter,
                     private request::ClaimantStream,
                     private request::AttemptStream,
                     private request::RunClient {
public:
  StreamFilter(envoy::Stream stream, const ModuleConfig& config);

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
  void onDownstreamAboveHighWatermark() override;
  void onDownstreamBelowLowWatermark() override;

private:
  // Of the request. The response's is that of the attempt.
  enum class State : uint8_t {
    Passing,    // Not covered, or no longer: everything passes through.
    Buffering,  // It is being received; nothing is claimed.
    Claiming,   // It is complete, and held until the claimant has decided.
    Detached,   // It runs on the private listener, which sends the response.
    Answered,   // The filter answered.
  };
  // Whether the request continues now.
  enum class Verdict : uint8_t { Hold, Continue };

  // ClaimantStream and AttemptStream
  request::Post post() override;
  // ClaimantStream
  std::optional<fingerprint::FingerprintResult> fingerprint(uint8_t version) override;
  runtime::Refusal enter() override;
  runtime::Refusal beginWait() override;
  void onNext(const request::Next& next) override;
  void onEvent(request::ClaimEvent event) override;
  void onFound(const protocol::Decision& decision) override;
  void onClaimAnswered(store::Deadline asked) override;
  void onStoreError(std::string_view reason) override;
  void onUnreadable(const absl::Status& why) override;
  // AttemptStream
  const std::string& keyHash() const override { return trace_.keyHash(); }
  void continueResponse() override;
  bool continueWith(const runtime::CompletedRecord& completed) override;
  void onEnding(const protocol::AttemptEnding& ending) override;
  void onWritten(bool stored, store::Deadline since) override;
  void onCompletedByUpstream(store::Deadline since) override;
  void onNoRoomForResponse() override;
  // RunClient
  void onRunStarted() override;
  void onRunHeaders(const protocol::FieldList& headers, bool end, std::string_view ending) override;
  void onRunBody(const std::string& bytes, bool end) override;
  void onRunTrailers(const protocol::FieldList& trailers) override;
  void onRunEnding(std::string_view ending) override;
  void onRunFailed(request::RunFailure failure) override;

  bool resumeAfterRedirect();
  // The client asks for the run with this name.
  void answerStatus(std::string_view token, std::shared_ptr<const protocol::Policy> policy);
  void pass(std::string_view method, protocol::PassReason reason);
  void buffer(RequestReading request, std::shared_ptr<const protocol::Policy> policy);
  // The request is complete. TERMINAL if it returns Hold, as for apply().
  Verdict claim();
  Verdict apply(const request::Next& next);
  Verdict run();
  // The claim is kept alive, and the upstream gets to know its attempt.
  void beginRun(const runtime::HeldClaim& claim);
  void detach();
  std::shared_ptr<request::DetachedRun> makeRun();
  // The client does not get the response of the run, which continues.
  void leaveRun();
  // The run sends a part of its response; `end`: the last one.
  void onRunSends(bool end);
  void tellRunWhetherSlow();
  // The client does not wait for the response any longer, as it wished.
  void answerAsync();
  Verdict failOpen();
  // The body goes to the upstream.
  void letGo();
  void leavePlace();
  // Counts it, unless it is None.
  runtime::Refusal counted(runtime::Refusal refusal) const;

  // --- Replies of our own. TERMINAL.
  void answer(const protocol::Policy& policy, const protocol::Answer& answer);
  message::AnswerContext contextOf(const protocol::Answer& answer) const;
  void replay();

  const Stats& stats() const { return config_.stats(); }
  Backend& backend() const { return config_.backend(); }

  const ModuleConfig& config_;  // Envoy keeps it alive longer than its streams.
  const StreamCounts counts_;
  State state_ = State::Passing;
  bool fail_open_ = false;  // Runs unprotected.
  bool hides_outcome_ =
      false;  // Runs without a claim, but what the upstream declares is for the filter.
  bool is_status_ = false;          // The client asks for the status of a run.
  bool own_reply_ = false;          // The next local reply is the filter's own.
  bool ends_with_headers_ = false;  // The request has no body, not even an empty one.
  bool run_answers_ = false;        // The response of a detached run has begun.
  bool local_reply_ = false;        // Envoy or another filter answered instead of the upstream.
  // Of Envoy's, on the way to the client: its stream's and its connection's may be full at a time,
  // the latter before the request begins.
  uint32_t full_buffers_ = 0;

  runtime::Admission::Place place_;  // Among the requests in flight.
  Trace trace_;
  std::shared_ptr<const protocol::Policy> policy_;
  RequestReading request_;
  StreamResponse response_;
  // The parts. Their destructors leave no claim behind, and do not use the stream, which may be
  // dead by then.
  std::optional<request::Claimant> claimant_;       // From the end of the request on.
  std::optional<request::RunningAttempt> attempt_;  // From the claim on,
  std::shared_ptr<request::DetachedRun> run_;       // or this, if it is detached.
  std::optional<request::StatusQuery> query_;       // In place of all these.

  request::LateAnswer wait_over_;
  std::optional<runtime::Alarms::Ticket> alarm_;  // For the end of an asynchronous request's wait.
};

}  // namespace idempotency::filter
