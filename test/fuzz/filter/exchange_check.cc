// What must hold of what goes to the upstream and to the client.
#include <algorithm>
#include <chrono>
#include <fmt/format.h>

#include "source/protocol/problem.h"
#include "test/fuzz/filter/exchange.h"

namespace idempotency::fuzz {

std::string Exchange::text() const {
  return fmt::format("request {} on route {}", place_.number, plan_.route->name);
}

std::string Exchange::outcome() const {
  const char* const ran = attempt_ != 0 ? " ran" : received_.begun ? " unprotected" : "";
  if (!stream_->reply.has_value()) {
    return fmt::format("{}{}", ran, locally_ ? " by Envoy" : "");
  }
  return stream_->reply->streamed ? " replayed" : " " + stream_->reply->details;
}

bool Exchange::isUnprotectedAllowed() const {
  return plan_.route->fails_open && *place_.troubled;
}

void Exchange::checkMayGoOn() const {
  if (plan_.refusal.has_value()) {
    violated(fmt::format("{} goes on, and should be refused", text()));
  }
  if (!plan_.covered) {
    return;
  }
  if (!received_.header("idempotency-recovery-point").empty()) {
    violated(fmt::format("{} goes on with a recovery point that nobody reached", text()));
  }
  if (received_.header("idempotency-attempt").empty() && !isUnprotectedAllowed()) {
    violated(fmt::format("{} goes on without a claim", text()));
  }
}

void Exchange::checkRequestWhole() const {
  if (received_.body != sent_.body) {
    violated(fmt::format("{} goes on with {} bytes of {}", text(), received_.body.size(),
                         sent_.body.size()));
  }
}

void Exchange::checkAnswer() const {
  const auto same = [&](const char* name) { return got_.header(name) == given_.header(name); };
  if (!same(":status") || !same("x-execution") || got_.body != given_.body ||
      got_.trailers != given_.trailers) {
    violated(fmt::format("{} gets an answer that nobody gave", text()));
  }
  if (unprotected_ && got_.header("idempotency-enforced") != "false") {
    violated(fmt::format("{} is not told that it ran unprotected", text()));
  }
  if (attempt_ == 0) {
    return;
  }
  if (!got_.header("idempotent-replayed").empty() || !got_.header("idempotency-enforced").empty() ||
      !got_.header("idempotency-outcome").empty()) {
    violated(fmt::format("{} gets a mark that is not for clients", text()));
  }
  checkStored();
}

// An answer goes out when its ending is durable, or says that it is not. Whose headers have gone
// before its end cannot say so, and waits for as long as the policy wants. Past the life of its
// record there is nothing to promise.
void Exchange::checkStored() const {
  const bool foreign = head_ != nullptr && head_->foreign;
  if (foreign || replaced_ || ledger_.isSettled(attempt_) || ledger_.isPastLife(attempt_)) {
    return;
  }
  const std::string mark = got_.header("idempotency-stored");
  const bool waited =
      std::chrono::steady_clock::now() - whole_since_ >= CompletionTimeout || *place_.troubled;
  if (early_headers_ ? !waited && !ledger_.isLost(attempt_) : mark != "false") {
    violated(fmt::format("{} gets its answer before it is stored", text()));
  }
}

// --- The filter's own answers

void Exchange::checkReply() const {
  const fake::Reply& reply = *stream_->reply;
  if (received_.begun || !reply.complete) {
    violated(fmt::format("{} is answered in half, or after it went on", text()));
  }
  if (reply.streamed) {
    if (!plan_.covered) {
      violated(fmt::format("{} gets a replay, and has no key", text()));
    }
    return ledger_.checkReplay(claimant_, reply);
  }
  const auto texts = protocol::problemTexts();
  const auto found = std::find_if(
      texts.begin(), texts.end(),
      [&](const protocol::ProblemText& problem) { return problem.code == reply.details; });
  if (found == texts.end()) {
    violated(fmt::format("{} is answered with {}", text(), reply.details));
  }
  checkProblem(found->problem);
}

void Exchange::checkProblem(protocol::Problem problem) const {
  if (plan_.refusal.has_value() ? problem != *plan_.refusal
                                : !plan_.covered || !mayRefuse(problem)) {
    violated(
        fmt::format("{} is refused without a reason: {}", text(), protocol::problemCode(problem)));
  }
}

bool Exchange::mayRefuse(protocol::Problem problem) const {
  switch (problem) {
    case protocol::Problem::RequestTooLarge:
      return sent_.body.size() > plan_.route->max_request;
    case protocol::Problem::StoreUnavailable:
      return !plan_.route->fails_open && *place_.troubled;
    case protocol::Problem::Overloaded:
      return place_.crowded();
    case protocol::Problem::QuotaExceeded:
      return place_.config_plan->most_in_flight > 0;
    case protocol::Problem::KeyReused:
    case protocol::Problem::InProgress:
    case protocol::Problem::Accepted:
    case protocol::Problem::OutcomeUnknown:
    case protocol::Problem::ResponseUnavailable:
    case protocol::Problem::KeyExpired:
      return ledger_.hasReason(claimant_, problem);
    case protocol::Problem::UnknownExpired:
    case protocol::Problem::KeyMissing:
    case protocol::Problem::KeyInvalid:
    case protocol::Problem::TenantMissing:
    case protocol::Problem::RequestTooOld:
    case protocol::Problem::RecordUnreadable:
    case protocol::Problem::ConfigInvalid:
    case protocol::Problem::UpgradeRefused:
    case protocol::Problem::ExpectationFailed:
    // The plays have no detached runs.
    case protocol::Problem::DetachedUnavailable:
    case protocol::Problem::DetachedTimeout:
    case protocol::Problem::DetachedLost:
    case protocol::Problem::Asynchronous:
    case protocol::Problem::RunNotFound:
    case protocol::Problem::RunNotCompleted:
      break;
  }
  return false;
}

}  // namespace idempotency::fuzz
