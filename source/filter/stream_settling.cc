// How an attempt ended, and what is written of it.
#include <fmt/format.h>
#include <utility>

#include "source/filter/response_reader.h"
#include "source/filter/stream_filter.h"
#include "source/filter/times.h"
#include "source/protocol/classify.h"
#include "source/protocol/header_names.h"
#include "source/protocol/headers.h"
#include "source/protocol/http_date.h"
#include "source/protocol/stored_response.h"

namespace idempotency {
namespace {

using std::chrono::steady_clock;

// Why a response did not come, in Envoy's word for it: no text of the upstream's.
std::string errorWord(envoy::Stream stream) {
  constexpr size_t Longest = 64;
  const std::string_view details = stream.text(envoy::Attribute::ResponseCodeDetails).value_or("");
  const std::string_view word = details.substr(0, details.find_first_of("{[(|"));
  return word.empty() ? "no_response" : std::string(word.substr(0, Longest));
}

// Then its fields are storable, and its body is copied; for any other ending there is no need.
bool keepsResponse(const StoreAction& action) {
  return action.kind == StoreActionKind::Complete && action.tombstone == Tombstone::None;
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
  std::optional<ResponseFields> fields;
  if (state_ == State::Overflowing) {
    response.body_bytes = policy_->max_response_bytes + 1;
  } else {
    response.body_bytes = stream().wholeBodySize(envoy::Direction::Response, within);
    fields = fieldsOf(stream(), *policy_);
  }
  response.storable = fields.has_value();
  const Outcome outcome = classify(streamFacts(stream(), via_upstream_, true));
  const StoreAction action = storeAction(*policy_, outcome, response);
  std::optional<StoredResponse> stored;
  if (keepsResponse(action)) {
    stored = StoredResponse{response.status, std::move(fields->headers), bodyOf(stream(), within),
                            std::move(fields->trailers)};
  }
  settleAndHold(action, response, std::move(stored));
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
  trace_.onOutcome(stream(), wordOf(action.kind, action.tombstone));
  std::shared_ptr<CompletedRecord> completed;
  std::string bytes;
  if (stored.has_value()) {
    bytes = serializeResponse(*stored);
    completed = std::make_shared<CompletedRecord>();
    completed->fingerprint = claim.fingerprint;
    completed->attempt = claim.ref.attempt;
    completed->expires_at = claim.expires_at;
    completed->live_until = claim.asked + policy_->ttl;
    completed->response = *std::move(stored);
    completed->key_hash = trace_.keyHash();
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
    trace_.onOutcome(stream(), "not_stored");
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
  trace_.onOutcome(stream(), wordOf(action.kind, action.tombstone));
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
