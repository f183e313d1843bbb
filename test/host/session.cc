#include "test/host/session.h"

#include <utility>

namespace idempotency::test {

using envoy::raw::Attribute;
using End = ExecutionLog::End;

Session::Session(std::shared_ptr<fake::Config> config, const fake::Route& route, ExecutionLog& log,
                 Plan plan)
    : config_(std::move(config)),
      log_(log),
      plan_(std::move(plan)),
      stream_(std::make_unique<fake::Stream>(*config_, &route)) {}

Session::~Session() {
  leave();
  stream_.reset();  // Before the config.
}

bool Session::step() {
  if (phase_ == Phase::New) {
    begin();
  }
  stream_->runScheduled();
  if (phase_ == Phase::Held && stream_->reply.has_value()) {
    status_ = stream_->reply->code;
    for (const auto& [name, value] : stream_->reply->headers) {
      if (name == "idempotent-replayed") {
        log_.checkReplay(plan_.key, plan_.body, stream_->reply->body);
      }
    }
    phase_ = Phase::Over;
  } else if (phase_ == Phase::Held && stream_->continued_request > 0) {
    reachUpstream();
  } else if (phase_ == Phase::Upstream && plan_.upstream_steps-- <= 0) {
    respond();
  } else if (phase_ == Phase::Answering && stream_->continued_response > 0) {
    phase_ = Phase::Over;
  }
  if (phase_ != Phase::Over && plan_.patience_steps == 0) {
    leave();
  }
  --plan_.patience_steps;
  return phase_ == Phase::Over;
}

void Session::begin() {
  phase_ = Phase::Held;
  stream_->requestHeaders({{":method", "POST"},
                           {":path", "/payments"},
                           {"content-type", "application/json"},
                           {"idempotency-key", "\"" + plan_.key + "\""}},
                          false);
  if (!stream_->reply.has_value()) {
    stream_->requestBody(plan_.body, true);
  }
}

void Session::reachUpstream() {
  phase_ = Phase::Upstream;
  if (plan_.fate != UpstreamFate::NotReached) {
    execution_ = log_.begin(plan_.key, plan_.body);
  }
}

void Session::respond() {
  phase_ = Phase::Answering;
  const auto answer = [this](const char* status, const std::string& body, bool end) {
    setDetails("via_upstream", 1);
    status_ = static_cast<uint32_t>(std::stoul(status));
    stream_->responseHeaders({{":status", status}}, false);
    stream_->responseBody(body, end);
  };
  const auto fail = [this](uint32_t code, const std::string& details) {
    setDetails(details, 1);
    status_ = code;
    stream_->localReply(code, details);
  };
  switch (plan_.fate) {
    case UpstreamFate::Answers:
      endExecution(End::Final);
      return answer("200", ExecutionLog::answerOf(execution_), true);
    case UpstreamFate::Declines:
      endExecution(End::Retryable);
      return answer("503", "later", true);
    case UpstreamFate::Forbids:
      endExecution(End::Retryable);
      return answer("401", "no", true);
    case UpstreamFate::TimesOut:
      endExecution(End::Final);
      return fail(504, "response_timeout");
    case UpstreamFate::NotReached:
      return fail(503, "no_healthy_upstream");
    case UpstreamFate::BreaksOff:
      endExecution(End::Final);
      answer("200", "half of ", false);
      return fail(502, "upstream_reset_after_response_started{protocol_error}");
    case UpstreamFate::AnswersAtLength:
      endExecution(End::Final);
      answer("200", std::string(2000, 'x'), false);
      stream_->responseBody("the end", true);
      return;
  }
}

void Session::leave() {
  if (phase_ == Phase::Over) {
    return;
  }
  if (phase_ == Phase::Upstream) {
    endExecution(End::Final);  // It goes on without us.
  }
  setDetails("downstream_remote_disconnect", phase_ == Phase::Upstream ? 1 : 0);
  stream_->complete();
  stream_->destroy();
  phase_ = Phase::Over;
}

void Session::endExecution(End end) {
  if (execution_ != 0) {
    log_.end(plan_.key, execution_, end);
  }
}

void Session::setDetails(const std::string& details, uint64_t attempts) {
  stream_->texts[Attribute::ResponseCodeDetails] = details;
  stream_->numbers[Attribute::UpstreamAttemptCount] = attempts;
}

}  // namespace idempotency::test
