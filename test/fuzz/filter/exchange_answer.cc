// What the upstream answers, or others in its place, and what of it reaches the client.
#include <chrono>
#include <fmt/format.h>
#include <utility>

#include "test/fuzz/filter/exchange.h"

namespace idempotency::fuzz {
namespace {

using envoy::raw::BodyAction;
using envoy::raw::HeadersAction;
using envoy::raw::TrailersAction;

constexpr size_t ResponseHeaders = 2;
constexpr size_t BufferedResponse = 3;
constexpr const char* ExecutionHeader = "x-execution";

}  // namespace

// --- The upstream

void Exchange::answerHeaders(const UpstreamHead& head, bool end) {
  if (!upstreamOpen() || given_.begun) {
    return;
  }
  head_ = &head;
  known_endless_ = head.endless && !end;
  const bool by_proxy = head.proxy_text != nullptr;
  protocol::FieldList headers = {{":status", fmt::format("{}", head.status)}};
  if (!by_proxy) {
    headers.emplace_back(ExecutionHeader, fmt::format("{}", place_.number));
  }
  for (const UpstreamField& field : head.fields) {
    headers.emplace_back(field.name, field.value);
  }
  setDetails(head.foreign ? "" : "via_upstream", head.attempts);
  if (head.foreign) {
    endAttempt(Truth::Lost);
  }
  // A proxy's answer comes in one piece.
  const std::string text = by_proxy ? head.proxy_text : "";
  giveHeaders(headers, by_proxy ? text.empty() : end);
  if (!over_ && !text.empty()) {
    giveBody(text, true);
  }
}

void Exchange::answerBody(size_t piece, bool end) {
  if (upstreamOpen() && given_.begun) {
    giveBody(upstreamPiece(piece, place_.number, pieces_++), end);
  }
}

void Exchange::answerTrailers(size_t which) {
  if (upstreamOpen() && given_.begun) {
    giveTrailers(upstreamTrailers(which));
  }
}

void Exchange::giveHeaders(const protocol::FieldList& headers, bool end) {
  given_.begun = true;
  given_.headers = headers;
  if (end) {
    giveEnd();
  }
  act([&] {
    const HeadersAction action = stream_->responseHeaders(headers, end);
    if (stream_->alive() && action == HeadersAction::Continue) {
      passAnswer("");
    }
  });
}

void Exchange::giveBody(const std::string& chunk, bool end) {
  given_.body += chunk;
  if (end) {
    giveEnd();
  }
  const std::string held = stream_->bodies[BufferedResponse];
  act([&] {
    const BodyAction action = stream_->responseBody(chunk, end);
    if (stream_->alive() && action == BodyAction::Continue) {
      passAnswer(held + chunk);
    }
  });
}

void Exchange::giveTrailers(const protocol::FieldList& trailers) {
  given_.trailers = trailers;
  giveEnd();
  act([&] {
    const TrailersAction action = stream_->responseTrailers(trailers);
    if (stream_->alive() && action == TrailersAction::Continue) {
      passAnswer(std::exchange(stream_->bodies[BufferedResponse], ""));
    }
  });
}

void Exchange::giveEnd() {
  given_.whole = true;
  whole_since_ = std::chrono::steady_clock::now();
  if (head_ != nullptr) {
    endAttempt(Truth::Answered, wholeAnswer());
  }
}

// --- What the client gets

void Exchange::passAnswer(const std::string& bytes) {
  if (!std::exchange(got_.begun, true)) {
    got_.headers = stream_->maps[ResponseHeaders];
    early_headers_ = !given_.whole;
  }
  got_.body += bytes;
  got_.trailers = given_.trailers;
  got_.whole = given_.whole;
  if (got_.whole) {
    onAnswerGone();
  }
}

void Exchange::onContinueAnswer() {
  if (over_ || got_.whole || !given_.whole) {
    violated(fmt::format("the answer to {} is let go twice, or at the wrong time", text()));
  }
  ++inside_;
  passAnswer(std::exchange(stream_->bodies[BufferedResponse], ""));
  --inside_;
}

void Exchange::onAnswerGone() {
  checkAnswer();
  status_ = std::stoi(got_.header(":status"));
  finish();
}

bool Exchange::isHeld() const {
  const bool holds_request = sent_.whole && !received_.begun && !locally_;
  const bool holds_answer = given_.whole && !got_.whole;
  return !over_ && (holds_request || holds_answer);
}

// --- What really happened

void Exchange::endAttempt(Truth truth, std::optional<WholeAnswer> answer) {
  if (attempt_ != 0 && !std::exchange(attempt_ended_, true)) {
    ledger_.ends(attempt_, truth, std::move(answer));
  }
}

void Exchange::endAttemptLocally(const LocalReply& reply) {
  if (reply.cut_by_envoy && head_ != nullptr) {
    WholeAnswer answer = partOfAnswer(protocol::Tombstone::TooLarge);
    answer.sent_before = reply.attempts > 1 || head_->sent_before;
    return endAttempt(Truth::CutByEnvoy, answer);
  }
  if (reply.never_sent && !given_.begun) {
    return endAttempt(Truth::NeverSent);
  }
  endAttemptCut();
}

// The stream ends before the answer does, if there is one.
void Exchange::endAttemptCut() {
  if (head_ != nullptr && head_->declared != Declared::Nothing) {
    return endAttempt(Truth::CutShort, partOfAnswer(protocol::Tombstone::Unstorable));
  }
  endAttempt(Truth::Lost);
}

WholeAnswer Exchange::partOfAnswer(protocol::Tombstone tombstone) const {
  WholeAnswer answer;
  answer.judged_status = head_->status;
  answer.declared = head_->declared;
  answer.response.status = head_->status;
  answer.tombstone =
      claim_route_ != nullptr && claim_route_->secret ? protocol::Tombstone::Secret : tombstone;
  return answer;
}

// gRPC answers 200 and tells its own status in the trailers, or in the headers.
int Exchange::judgedStatus() const {
  if (given_.header("content-type") != "application/grpc") {
    return head_->status;
  }
  Message trailers;
  trailers.headers = given_.trailers;
  const std::string in_trailers = trailers.header("grpc-status");
  return (in_trailers.empty() ? head_->grpc : in_trailers) == "14" ? 503 : head_->status;
}

bool Exchange::isSilent() const {
  Message trailers;
  trailers.headers = given_.trailers;
  return given_.header("content-type") == "application/grpc" && *head_->grpc == '\0' &&
         trailers.header("grpc-status").empty();
}

WholeAnswer Exchange::wholeAnswer() const {
  WholeAnswer answer;
  answer.judged_status = judgedStatus();
  answer.declared = head_->declared;
  answer.by_proxy = head_->proxy_text != nullptr;
  answer.not_reached = head_->not_reached;
  answer.sent_before = head_->attempts > 1 || head_->sent_before;
  answer.silent = isSilent();
  if (claim_route_ != nullptr && claim_route_->secret) {
    answer.tombstone = protocol::Tombstone::Secret;
  } else if (claim_route_ != nullptr &&
             (known_endless_ || given_.body.size() > claim_route_->max_response)) {
    answer.tombstone = protocol::Tombstone::TooLarge;
  } else if (head_->unstorable) {
    answer.tombstone = protocol::Tombstone::Unstorable;
  }
  answer.response.status = head_->status;
  if (!answer.by_proxy) {
    answer.response.headers.emplace_back(ExecutionHeader, fmt::format("{}", place_.number));
  }
  for (const UpstreamField& field : head_->fields) {
    if (field.stored) {
      answer.response.headers.emplace_back(field.name, field.value);
    }
  }
  answer.response.body = given_.body;
  answer.response.trailers = given_.trailers;
  return answer;
}

}  // namespace idempotency::fuzz
