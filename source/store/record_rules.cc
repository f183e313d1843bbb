#include "source/store/record_rules.h"

#include "source/protocol/overloaded.h"

namespace idempotency::store {
namespace {

// The state that an ending leads to. None for a release: it removes the record, or gives it back.
std::optional<protocol::RecordState> stateAfter(const protocol::Ending& ending) {
  using State = std::optional<protocol::RecordState>;
  return std::visit(
      protocol::Overloaded{
          [](const protocol::Unknown&) -> State { return protocol::RecordState::Unknown; },
          [](const protocol::Completed&) -> State { return protocol::RecordState::Completed; },
          [](const protocol::Failed&) -> State { return protocol::RecordState::FailedRetryable; },
          [](const protocol::Released&) -> State { return std::nullopt; },
      },
      ending);
}

}  // namespace

bool mayReclaim(const ClaimRequest& request, const Record& record) {
  if (!request.from.has_value() || record.state != request.from->state ||
      record.attempt != request.from->attempt) {
    return false;
  }
  switch (record.state) {
    case protocol::RecordState::FailedRetryable:
    case protocol::RecordState::Expired:
      return true;
    case protocol::RecordState::InProgress:
      return !record.lease_alive && record.on_lease_expired == protocol::LeaseExpired::Retry &&
             request.on_lease_expired == protocol::LeaseExpired::Retry;
    case protocol::RecordState::Completed:
      return record.past_life;
    case protocol::RecordState::Unknown:
      return false;
  }
  return false;
}

std::optional<WriteOutcome> outcomeWithoutWrite(const protocol::Ending& ending,
                                                protocol::Attempt attempt,
                                                const std::optional<RecordHead>& found) {
  if (!found.has_value()) {
    return std::holds_alternative<protocol::Released>(ending) ? WriteOutcome::Done
                                                              : WriteOutcome::Fenced;
  }
  if (found->attempt != attempt) {
    return WriteOutcome::Fenced;
  }
  const bool late = found->state == protocol::RecordState::Unknown &&
                    std::holds_alternative<protocol::Completed>(ending);
  if (found->state == protocol::RecordState::InProgress || late) {
    return std::nullopt;
  }
  return stateAfter(ending) == found->state ? WriteOutcome::Done : WriteOutcome::Fenced;
}

bool isCompletedElsewhere(const ClaimRef& claim, const Record& found) {
  return claim.own_transaction && found.attempt == claim.attempt &&
         found.state == protocol::RecordState::Completed;
}

}  // namespace idempotency::store
