#include "source/cli/change_text.h"

#include <fmt/format.h>
#include <variant>

#include "source/cli/time_text.h"
#include "source/protocol/overloaded.h"
#include "source/protocol/record.h"

namespace idempotency::cli {
namespace {

using protocol::RecordState;

std::string notAllowed(const store::OperatorAction& action, const store::Record& record) {
  switch (record.state) {
    case RecordState::InProgress:
      if (record.lease_alive) {
        return fmt::format(
            "the request is running (its lease lasts for another {}). Wait until it has ended.",
            shownDuration(record.lease_left));
      }
      return std::holds_alternative<store::AskAgain>(action)
                 ? "the record is not unknown yet: its lease has expired, and the sweeper changes "
                   "it soon."
                 : "the request may have run. Say first what became of it: records resolve.";
    case RecordState::Unknown:
      return "the request may have run. Say first what became of it: records resolve.";
    case RecordState::Completed:
      return "the record is completed, and its retries get the stored response. To delete it: "
             "records bust.";
    case RecordState::FailedRetryable:
      return "the request has failed, and the next request with the key runs already. Nothing is "
             "unknown.";
    case RecordState::Expired:
      return "the record has expired. Nothing is unknown.";
  }
  return "the record's state does not allow it.";
}

}  // namespace

std::string consequence(const store::OperatorAction& action) {
  return std::visit(
      protocol::Overloaded{
          [](const protocol::Completed& completed) {
            return fmt::format(
                "Every retry gets this response, with status {}. The request does not run again.",
                completed.status);
          },
          [](const store::NotRun&) {
            return std::string(
                "The next request with this key runs. If the first one did run, or still arrives, "
                "it runs twice.");
          },
          [](const store::Free&) {
            return std::string(
                "The record is deleted, and the key is free. The next request with it runs, even "
                "if it is a different request. If the first one did run, or still arrives, it runs "
                "twice.");
          },
          [](const store::Bust&) {
            return std::string(
                "The stored result is deleted. The next request with this key runs again. Envoys "
                "may replay the old result from their caches until replay_cache.max_age has "
                "passed.");
          },
          [](const store::AskAgain&) {
            return std::string(
                "The reconciler asks the upstream now, and its tries count from 0. The key stays "
                "taken until an answer settles it. Nothing happens if the operation has no "
                "reconcile settings.");
          },
          [](const store::GiveUp&) {
            return std::string("The reconciler gives up. An operator has to settle the record.");
          },
      },
      action);
}

std::string refusal(const store::OperatorAction& action, const store::ChangeResult& result) {
  switch (result.outcome) {
    case store::ChangeOutcome::Done:
      return "";
    case store::ChangeOutcome::Absent:
      return "there is no such record any more.";
    case store::ChangeOutcome::Stale:
      return result.found.has_value()
                 ? fmt::format(
                       "another request has claimed the record since; its attempt is now "
                       "{}. Look at it again.",
                       result.found->attempt)
                 : "another request has claimed the record since. Look at it again.";
    case store::ChangeOutcome::Refused:
      return result.found.has_value() ? notAllowed(action, *result.found)
                                      : "the record's state does not allow it.";
  }
  return "";
}

}  // namespace idempotency::cli
