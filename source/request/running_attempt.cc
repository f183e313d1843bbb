#include "source/request/running_attempt.h"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include "source/message/stored_response.h"
#include "source/protocol/proxy_evidence.h"
#include "source/runtime/replay_cache.h"
#include "source/runtime/times.h"

namespace idempotency::request {
namespace {

using std::chrono::steady_clock;

// A claim that is handed over cannot get lost on the way.
static_assert(std::is_nothrow_move_constructible_v<runtime::HeldClaim>);

// How many bytes of a body are gathered before it streams on. Of an error's at least so many that a
// proxy's text can be recognised.
uint64_t mostToGather(const protocol::Policy& policy, int status) {
  return protocol::isError(status)
             ? std::max<uint64_t>(policy.max_response_bytes, protocol::EnoughText)
             : policy.max_response_bytes;
}

// Headers and trailers may both declare an outcome; they must agree.
protocol::DeclaredOutcome combined(protocol::DeclaredOutcome first,
                                   protocol::DeclaredOutcome second) {
  if (first == protocol::DeclaredOutcome::None || first == second) {
    return second;
  }
  return second == protocol::DeclaredOutcome::None ? first : protocol::DeclaredOutcome::Invalid;
}

// Then its fields are storable, and its body is copied; for any other ending there is no need.
bool keepsResponse(const protocol::AttemptEnding& ending) {
  return ending.kind == protocol::EndingKind::Completed &&
         ending.tombstone == protocol::Tombstone::None;
}

// Whether there is a record afterwards, and time ends it.
bool hasExpiry(protocol::EndingKind kind) {
  return kind != protocol::EndingKind::Released && kind != protocol::EndingKind::Unknown;
}

std::shared_ptr<const runtime::CompletedRecord> completedBy(const runtime::HeldClaim& claim,
                                                            protocol::StoredResponse response,
                                                            const std::string& key_hash) {
  auto completed = std::make_shared<runtime::CompletedRecord>();
  completed->fingerprint = claim.fingerprint;
  completed->attempt = claim.ref.attempt;
  completed->expires_at = claim.expires_at;
  completed->live_until = claim.liveUntil();
  completed->response = std::move(response);
  completed->key_hash = key_hash;
  return completed;
}

}  // namespace

std::string_view wordOf(const protocol::AttemptEnding& ending) {
  if (ending.kind == protocol::EndingKind::Completed) {
    return ending.tombstone == protocol::Tombstone::None ? "stored" : "tombstone";
  }
  return protocol::name(ending.kind);
}

RunningAttempt::RunningAttempt(ClaimKeeper& keeper, AttemptStream& stream,
                               UpstreamResponse& response, runtime::Admission::Place& place,
                               runtime::HeldClaim claim) noexcept
    : keeper_(keeper),
      stream_(stream),
      response_(response),
      place_(place),
      policy_(claim.policy),
      expires_at_(claim.expires_at),
      live_until_(claim.liveUntil()),
      claim_(std::move(claim)) {}

RunningAttempt::~RunningAttempt() {
  if (!claim_.has_value()) {
    return;
  }
  try {
    keeper_.settle(*claim_, protocol::endingOfLost(*policy_, "stream_lost", reconcileAfter()),
                   nullptr, nullptr);
  } catch (...) {
    keeper_.letLeaseEnd(claim_->ref.attempt);  // No memory, say.
  }
}

// --- The response -----------------------------------------------------------------------------

void RunningAttempt::onHeaders(bool end) {
  via_upstream_ = true;  // First: what throws after this must not make it look never sent.
  status_ = response_.status();
  declared_ = response_.takeDeclaredInHeaders();
  declares_later_ = response_.announcesDeclaration();
  phase_ = Phase::Gathering;
  if (end) {
    finish();
  } else if (response_.isTooLongToHold(*policy_)) {
    overflow();
    headers_gone_ = true;
  }
}

void RunningAttempt::onBody(bool end) {
  if (phase_ == Phase::Gathering) {
    gather(end);
  }
  if (phase_ == Phase::Overflowing && end) {
    // The last part is here already, however large: Envoy may hold it.
    const uint64_t size = response_.bodySize();
    response_.allowToHold(size);
    place_.hold(size);
    finish();
  }
  headers_gone_ = headers_gone_ || !holdsResponse();
}

void RunningAttempt::gather(bool end) {
  const uint64_t size = response_.bodySize();
  if (size > mostToGather(*policy_, status_)) {
    overflow();
  } else if (!place_.holdResponse(size)) {
    stream_.onNoRoomForResponse();
    overflow();
  } else if (end) {
    finish();
  }
}

void RunningAttempt::onTrailers() {
  if (phase_ == Phase::Gathering || phase_ == Phase::Overflowing) {
    finish();
  }
}

void RunningAttempt::overflow() {
  if (protocol::isError(status_)) {
    error_text_ = response_.beginning();
  }
  phase_ = Phase::Overflowing;
  // Envoy adds the piece that is too much to what it holds before it passes all of it on: without
  // room for that, it would answer 500.
  response_.allowToHold(response_.bodySize());
  place_.hold(0);
  // As far as it is known before the end.
  protocol::Observation seen = observe();
  seen.complete = true;
  record_stays_ = hasExpiry(protocol::judgeOutcome(*policy_, seen).kind);
  mark(true);
}

void RunningAttempt::stopHolding() {
  answer_.drop();
  phase_ = Phase::Over;
  place_.hold(0);
}

// --- The outcome ------------------------------------------------------------------------------

protocol::Observation RunningAttempt::observe() const {
  protocol::Observation seen = response_.observeCall();
  seen.via_upstream = via_upstream_;
  seen.redirected = claim_.has_value() && claim_->redirected;
  seen.status = status_;
  seen.judged_status = status_;
  // Trailers that were announced and are missing may have said something else.
  const bool contested = declares_later_ && declared_ != protocol::DeclaredOutcome::None;
  seen.declared = contested ? protocol::DeclaredOutcome::Invalid : declared_;
  return seen;
}

// By default, Envoy drops HTTP/1.1 trailers. A declaration that was announced there is then lost.
protocol::DeclaredOutcome RunningAttempt::declaredInAll() {
  const protocol::DeclaredOutcome in_trailers = response_.takeDeclaredInTrailers();
  if (in_trailers == protocol::DeclaredOutcome::None && declares_later_) {
    return protocol::DeclaredOutcome::Invalid;
  }
  return combined(declared_, in_trailers);
}

void RunningAttempt::onOtherAnswer() {
  const protocol::Observation seen = observe();
  settle(protocol::judgeOutcome(*policy_, seen), seen, std::nullopt);
}

void RunningAttempt::finish() {
  const bool held = phase_ != Phase::Overflowing;
  protocol::Observation seen = observe();
  seen.declared = declaredInAll();
  response_.observeWhole(held ? std::nullopt : std::optional<std::string_view>(error_text_), seen);
  std::optional<ResponseFields> fields;
  if (held) {
    seen.body_bytes = response_.bodySize();
    fields = response_.fieldsToStore(*policy_);
  } else {
    seen.body_bytes = policy_->max_response_bytes + 1;
  }
  seen.storable = fields.has_value();
  const protocol::AttemptEnding ending = protocol::judgeOutcome(*policy_, seen);
  std::optional<protocol::StoredResponse> stored;
  if (keepsResponse(ending)) {
    stored = protocol::StoredResponse{seen.status, std::move(fields->headers), response_.body(),
                                      std::move(fields->trailers)};
  }
  settle(ending, seen, std::move(stored));
}

void RunningAttempt::settle(const protocol::AttemptEnding& ending,
                            const protocol::Observation& seen,
                            std::optional<protocol::StoredResponse> stored) {
  settling_since_ = steady_clock::now();
  record_stays_ = hasExpiry(ending.kind);
  stream_.onEnding(ending);
  std::shared_ptr<const runtime::CompletedRecord> completed;
  std::string bytes;
  if (stored.has_value()) {
    bytes = message::serializeResponse(*stored);
    completed = completedBy(*claim_, *std::move(stored), stream_.keyHash());
  }
  keeper_.settle(
      *claim_, protocol::endingFor(ending, seen, std::move(bytes), reconcileAfter()),
      std::move(completed),
      answer_.expect(stream_.post(),
                     [this](const runtime::SettleReport& report) { onSettled(report); }));
  claim_.reset();
  phase_ = Phase::Settling;
}

std::optional<std::chrono::milliseconds> RunningAttempt::reconcileAfter() const {
  return keeper_.reconcileAfter(claim_->ref.identity.operation);
}

void RunningAttempt::onSettled(const runtime::SettleReport& report) {
  phase_ = Phase::Over;
  place_.hold(0);
  const bool stored = report.settled == runtime::Settled::Done;
  if (report.completed != nullptr) {
    stream_.onCompletedByUpstream(settling_since_);
    if (headers_gone_) {
      stream_.continueResponse();
      return;
    }
    if (stream_.continueWith(*report.completed)) {
      return;
    }
  } else {
    stream_.onWritten(stored, settling_since_);
  }
  if (!headers_gone_) {
    mark(stored);
  }
  stream_.continueResponse();
}

void RunningAttempt::mark(bool stored) {
  ResponseMark mark{.stored = stored};
  // After live_until_, the store may have renewed the record, and only the store knows its expiry.
  if (stored && record_stays_ && steady_clock::now() < live_until_) {
    mark.expires_at = runtime::secondsOf(expires_at_);
  }
  response_.mark(mark);
}

bool RunningAttempt::end() {
  bool goes_on = false;
  if (claim_.has_value()) {
    const protocol::Observation seen = observe();
    const protocol::AttemptEnding ending = protocol::judgeOutcome(*policy_, seen);
    stream_.onEnding(ending);
    goes_on = ending.kind == protocol::EndingKind::Redirected;
    if (goes_on) {
      runtime::HeldClaim moved = *claim_;
      moved.redirected = true;
      keeper_.passOn(std::move(moved));
    } else {
      keeper_.settle(*claim_, protocol::endingFor(ending, seen, {}, reconcileAfter()), nullptr,
                     nullptr);
    }
    claim_.reset();
  }
  answer_.drop();
  phase_ = Phase::Over;
  return goes_on;
}

}  // namespace idempotency::request
