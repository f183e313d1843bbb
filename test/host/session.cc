#include "test/host/session.h"

#include <utility>

namespace idempotency::test {

using envoy::raw::Attribute;
using End = ExecutionLog::End;

namespace {

std::string firstHalfOf(const std::string& text) {
  return text.substr(0, text.size() / 2);
}

}  // namespace

Session::Session(std::shared_ptr<fake::Config> config, const fake::Route& route, ExecutionLog& log,
                 Plan plan)
    : Session(std::move(config), route, log, std::move(plan), nullptr) {}

Session::Session(std::shared_ptr<fake::Config> config, const fake::Route& route, ExecutionLog& log,
                 Plan plan, std::unique_ptr<PrivateListener::Run> connection)
    : config_(std::move(config)),
      route_(route),
      log_(log),
      plan_(std::move(plan)),
      connection_(std::move(connection)),
      stream_(std::make_unique<fake::Stream>(*config_, &route)) {}

Session::~Session() {
  leave();
  stream_.reset();  // Before the config.
}

bool Session::step() {
  if (phase_ == Phase::New && connection_ != nullptr) {
    beginRun();
  } else if (phase_ == Phase::New) {
    begin();
  }
  stream_->runScheduled();
  if (phase_ == Phase::Held && stream_->reset_details.has_value()) {
    phase_ = Phase::Over;  // The client knows that it has not got all.
  } else if (phase_ == Phase::Held && stream_->reply.has_value() && stream_->reply->complete) {
    onReply();
  } else if (phase_ == Phase::Held && stream_->continued_request > 0) {
    reachUpstream();
  } else if (phase_ == Phase::Upstream && plan_.upstream_steps-- <= 0) {
    respond();
  } else if (phase_ == Phase::MidAnswer) {
    respondFurther();
  } else if (phase_ == Phase::Answering && stream_->continued_response > 0) {
    onAnswered();
  }
  const bool closed = connection_ != nullptr && connection_->isClosed();
  if (phase_ != Phase::Over && (closed || plan_.patience_steps == 0)) {
    leave();
  }
  --plan_.patience_steps;
  if (phase_ != Phase::Over && plan_.cut_steps == 0) {
    cut();
  }
  --plan_.cut_steps;
  return phase_ == Phase::Over;
}

void Session::begin() {
  phase_ = Phase::Held;
  stream_->requestHeaders(requestHeaders(), false);
  if (!stream_->reply.has_value()) {
    stream_->requestBody(plan_.body, true);
  }
}

void Session::beginRun() {
  if (stream_->requestHeaders(connection_->headers, connection_->ends_with_headers) !=
      envoy::raw::HeadersAction::Continue) {
    phase_ = Phase::Over;  // Its run was cancelled before.
    return;
  }
  if (!connection_->ends_with_headers) {
    stream_->requestBody(connection_->body, true);
  }
  reachUpstream();
}

fake::FieldList Session::requestHeaders() const {
  return {{":method", "POST"},
          {":path", "/payments"},
          {"content-type", "application/json"},
          {"idempotency-key", "\"" + plan_.key + "\""}};
}

void Session::onReply() {
  status_ = stream_->reply->code;
  // A run's own response, unless it is too long for a check.
  if (stream_->reply->streamed && status_ == 200 && stream_->reply->body.size() < 1000) {
    log_.checkReplay(plan_.key, plan_.body, stream_->reply->body);
  }
  for (const auto& [name, value] : stream_->reply->headers) {
    if (name == "idempotent-replayed") {
      replayed_ = true;
      log_.checkReplay(plan_.key, plan_.body, stream_->reply->body);
    }
  }
  phase_ = Phase::Over;
}

void Session::onAnswered() {
  acknowledged_ = execution_ != 0;
  for (const auto& [name, value] : stream_->maps[2]) {
    acknowledged_ = acknowledged_ && name != "idempotency-stored";
  }
  phase_ = Phase::Over;
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
      phase_ = Phase::MidAnswer;
      return;
    case UpstreamFate::AnswersAtLength:
      endExecution(End::Final);
      answer("200", std::string(2000, 'x'), false);
      phase_ = Phase::MidAnswer;
      return;
    case UpstreamFate::AnswersInTwo:
      endExecution(End::Final);
      answer("200", firstHalfOf(ExecutionLog::answerOf(execution_)), false);
      phase_ = Phase::MidAnswer;
      return;
    case UpstreamFate::Redirects:
      return redirect();
    case UpstreamFate::RedirectsAway:
      endExecution(End::Final);
      setDetails("internal_redirect", 1);
      stream_->complete();
      stream_->destroy();
      phase_ = Phase::Over;
      return;
  }
}

void Session::respondFurther() {
  if (plan_.fate == UpstreamFate::BreaksOff) {
    return loseUpstream();
  }
  phase_ = Phase::Answering;
  const std::string answer = ExecutionLog::answerOf(execution_);
  stream_->responseBody(plan_.fate == UpstreamFate::AnswersInTwo
                            ? answer.substr(firstHalfOf(answer).size())
                            : "the end",
                        true);
}

void Session::loseUpstream() {
  const bool begun = phase_ == Phase::MidAnswer;
  mayHaveRun();
  const std::string details =
      begun ? "upstream_reset_after_response_started{protocol_error}"
            : "upstream_reset_before_response_started{connection_termination}";
  setDetails(details, 1);
  status_ = begun ? 502 : 503;
  phase_ = Phase::Answering;
  stream_->localReply(status_, details);
}

// The stream ends, and the same request comes again through a new one.
void Session::redirect() {
  const fake::FieldList headers = stream_->maps[0];
  setDetails("internal_redirect", 1);
  stream_->complete();
  stream_->destroy();
  stream_ = std::make_unique<fake::Stream>(*config_, &route_);
  plan_.fate = UpstreamFate::Answers;
  if (stream_->requestHeaders(headers, true) == envoy::raw::HeadersAction::Continue) {
    phase_ = Phase::Upstream;  // One execution, of two upstreams.
    return;
  }
  endExecution(End::Final);
  phase_ = Phase::Held;
}

void Session::cut() {
  const bool sent = phase_ == Phase::Upstream || phase_ == Phase::MidAnswer;
  if (sent) {
    mayHaveRun();
  }
  setDetails("stream_idle_timeout", sent ? 1 : 0);
  if (phase_ == Phase::MidAnswer && plan_.fate == UpstreamFate::AnswersAtLength) {
    status_ = 0;  // The client has a part of the answer already: Envoy can only break off.
    stream_->complete();
    stream_->destroy();
    phase_ = Phase::Over;
    return;
  }
  status_ = 504;
  stream_->localReply(504, "stream_idle_timeout");
  // It is held until its outcome is written, unless it takes the place of an answer that was.
  phase_ = sent ? Phase::Answering : Phase::Over;
}

void Session::leave() {
  if (phase_ == Phase::Over) {
    return;
  }
  if (phase_ == Phase::Upstream) {
    mayHaveRun();
  }
  setDetails("downstream_remote_disconnect",
             phase_ == Phase::Upstream || phase_ == Phase::MidAnswer ? 1 : 0);
  stream_->complete();
  stream_->destroy();
  phase_ = Phase::Over;
}

void Session::loseClient() {
  setDetails("downstream_remote_disconnect", 1);
  stream_->complete();
  stream_->destroy();
}

// It was on its way, and goes on without us.
void Session::mayHaveRun() {
  if (execution_ == 0) {
    execution_ = log_.begin(plan_.key, plan_.body);
  }
  endExecution(End::Final);
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
