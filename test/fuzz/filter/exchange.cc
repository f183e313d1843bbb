// What clients send, what Envoy does, and what the filter lets go on. Answers are in
// exchange_answer.cc, what must hold is in exchange_check.cc.
#include "test/fuzz/filter/exchange.h"

#include <charconv>
#include <fmt/format.h>
#include <utility>

#include "test/fuzz/filter/story.h"

namespace idempotency::fuzz {
namespace {

using envoy::raw::Attribute;
using envoy::raw::BodyAction;
using envoy::raw::HeadersAction;
using envoy::raw::TrailersAction;

constexpr size_t RequestHeaders = 0;
constexpr size_t BufferedRequest = 1;
constexpr LocalReply DeniedBefore{.code = 403, .details = "ext_authz_denied", .attempts = 0};

protocol::Attempt attemptIn(const Message& message) {
  const std::string text = message.header("idempotency-attempt");
  protocol::Attempt attempt = 0;
  std::from_chars(text.data(), text.data() + text.size(), attempt);
  return attempt;
}

}  // namespace

Exchange::Exchange(Place place, RequestPlan plan)
    : place_(std::move(place)),
      ledger_(*place_.ledger),
      plan_(std::move(plan)),
      claimant_{place_.number,  ledger_.moment(),
                place_.came,    plan_.route,
                plan_.identity, {plan_.route->any_request, plan_.method, plan_.content_type, ""}},
      stream_(std::make_unique<fake::Stream>(*place_.config, place_.route)) {
  stream_->on_continue_request = [this] { onContinueRequest(); };
  stream_->on_continue_response = [this] { onContinueAnswer(); };
}

Exchange::~Exchange() {
  depart("downstream_local_disconnect", false);
  tell(fmt::format(" [{}: {}{}]", place_.number, status_, outcome()));
}

// --- The client

void Exchange::begin() {
  if (plan_.quirk == Quirk::Denied) {
    return replyLocally(DeniedBefore, true);
  }
  sent_.begun = true;
  sent_.headers = plan_.headers;
  sent_.whole = plan_.quirk == Quirk::NoBody;
  act([&] {
    const HeadersAction action = stream_->requestHeaders(plan_.headers, sent_.whole);
    if (stream_->alive() && action == HeadersAction::Continue) {
      goOn();
      passRequest("");
    }
  });
}

void Exchange::beginAgain(const Redirect& redirect) {
  sent_.begun = true;
  sent_.headers = redirect.headers;
  sent_.whole = redirect.body.empty();
  act([&] {
    const HeadersAction action = stream_->requestHeaders(redirect.headers, sent_.whole);
    const bool resumed =
        stream_->metadata["envoy-idempotency:attempt"] == fmt::format("{}", redirect.attempt);
    const bool goes_on = stream_->alive() && action == HeadersAction::Continue;
    if (goes_on && resumed) {
      attempt_ = redirect.attempt;
      claim_route_ = redirect.claim_route;
      received_.begun = true;
      ledger_.goesOn(attempt_, place_.number);
    } else {
      ledger_.ends(redirect.attempt, Truth::Lost);
      if (goes_on) {
        goOn();
      }
    }
    if (goes_on) {
      passRequest("");
    }
  });
  if (!sent_.whole) {
    sendBody(redirect.body, true);
  }
}

void Exchange::sendBody(const std::string& piece, bool end) {
  if (!requestOpen()) {
    return;
  }
  sent_.body += piece;
  sent_.whole = end;
  claimant_.request.body = sent_.body;
  const std::string held = stream_->bodies[BufferedRequest];
  act([&] {
    const BodyAction action = stream_->requestBody(piece, end);
    if (stream_->alive() && action == BodyAction::Continue) {
      goOn();
      passRequest(held + piece);
    }
  });
}

void Exchange::sendTrailers() {
  if (!requestOpen()) {
    return;
  }
  sent_.trailers = {{"x-trailer", "1"}};
  sent_.whole = true;
  act([&] {
    const TrailersAction action = stream_->requestTrailers(sent_.trailers);
    if (stream_->alive() && action == TrailersAction::Continue) {
      goOn();
      passRequest(std::exchange(stream_->bodies[BufferedRequest], ""));
    }
  });
}

// The headers go to the upstream, if they have not yet.
void Exchange::goOn() {
  if (std::exchange(received_.begun, true)) {
    return;
  }
  received_.headers = stream_->maps[RequestHeaders];
  checkMayGoOn();
  if (!plan_.covered) {
    return;
  }
  attempt_ = attemptIn(received_);
  unprotected_ = attempt_ == 0;
  if (!unprotected_) {
    claim_route_ = plan_.route;
    ledger_.begins(attempt_, place_.number);
  }
}

void Exchange::passRequest(const std::string& bytes) {
  received_.body += bytes;
  received_.whole = sent_.whole;
  received_.trailers = sent_.trailers;
  if (received_.whole) {
    checkRequestWhole();
  }
}

void Exchange::onContinueRequest() {
  if (over_ || received_.begun) {
    violated(fmt::format("{} is let go twice, or after its end", text()));
  }
  ++inside_;
  goOn();
  passRequest(std::exchange(stream_->bodies[BufferedRequest], ""));
  if (const LocalReply* const reply = std::exchange(router_reply_, nullptr)) {
    replyLocally(*reply, true);
  }
  --inside_;
}

// --- Envoy

void Exchange::replyLocally(const LocalReply& reply, bool through_filters) {
  if (over_) {
    return;
  }
  endAttemptLocally(reply);
  locally_ = true;
  replaced_ = replaced_ || given_.whole;
  setDetails(reply.details, received_.begun ? reply.attempts : 0, reply.flags);
  act([&] { stream_->announceLocalReply(reply.code, reply.details); });
  if (over_) {
    return;
  }
  if (got_.begun || (given_.begun && !through_filters)) {
    status_ = got_.begun ? 0 : static_cast<int>(reply.code);
    return finish();
  }
  stream_->bodies[3].clear();
  given_ = {};
  head_ = nullptr;
  const std::string body = reply.body;
  giveHeaders({{":status", fmt::format("{}", reply.code)}}, body.empty());
  if (!over_ && !body.empty()) {
    giveBody(body, true);
  }
}

std::optional<Exchange::Redirect> Exchange::followRedirect() {
  if (!upstreamOpen() || attempt_ == 0 || given_.begun || !sent_.whole || !sent_.trailers.empty()) {
    return std::nullopt;
  }
  Redirect redirect{stream_->maps[RequestHeaders], sent_.body, attempt_, claim_route_};
  attempt_ended_ = true;  // Here: it goes on elsewhere.
  setDetails("internal_redirect", 1);
  finish();
  return redirect;
}

void Exchange::depart(const char* details, bool late) {
  if (over_) {
    return;
  }
  endAttemptCut();
  setDetails(details, received_.begun ? 1 : 0);
  over_ = true;
  act([&] {
    stream_->complete();
    if (late) {
      stream_->runScheduled();
    }
    stream_->destroy();
  });
}

void Exchange::deliver() {
  if (!over_) {
    act([&] { stream_->runScheduled(); });
  }
}

void Exchange::finish() {
  over_ = true;
  if (inside_ > 0) {
    stream_->endInsideCall();
    return;
  }
  act([&] {
    stream_->complete();
    stream_->destroy();
  });
}

void Exchange::afterHook() {
  if (stream_->reset_details.has_value()) {
    violated(fmt::format("{} is reset by the filter", text()));
  }
  if (stream_->reply.has_value() && status_ == 0) {
    if (over_) {
      violated(fmt::format("{} is answered after its end", text()));
    }
    over_ = true;
    status_ = static_cast<int>(stream_->reply->code);
    checkReply();
  }
}

void Exchange::setDetails(const std::string& details, uint64_t attempts, uint64_t flags) {
  stream_->texts[Attribute::ResponseCodeDetails] = details;
  stream_->numbers[Attribute::UpstreamAttemptCount] = attempts;
  stream_->numbers[Attribute::ResponseFlags] = flags;
}

}  // namespace idempotency::fuzz
