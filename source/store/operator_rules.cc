#include "source/store/operator_rules.h"

#include <variant>

#include "source/protocol/overloaded.h"

namespace idempotency::store {
namespace {

using protocol::RecordState;

// Nobody knows what became of the attempt, and no request is running it.
bool isUnsettled(const Record& record) {
  return record.state == RecordState::Unknown ||
         (record.state == RecordState::InProgress && !record.lease_alive);
}

bool mayBust(RecordState state) {
  switch (state) {
    case RecordState::Completed:
    case RecordState::FailedRetryable:
    case RecordState::Expired:
      return true;
    case RecordState::InProgress:
    case RecordState::Unknown:
      return false;
  }
  return false;
}

bool isAllowed(const OperatorAction& action, const Record& record) {
  return std::visit(protocol::Overloaded{
                        [&](const protocol::Completed&) { return isUnsettled(record); },
                        [&](const NotRun&) { return isUnsettled(record); },
                        [&](const Free&) {
                          return isUnsettled(record) ||
                                 record.state == RecordState::FailedRetryable;
                        },
                        [&](const Bust&) { return mayBust(record.state); },
                        [&](const AskAgain&) { return record.state == RecordState::Unknown; },
                        [&](const GiveUp&) { return record.state == RecordState::Unknown; },
                    },
                    action);
}

}  // namespace

ChangeOutcome judgeChange(const OperatorAction& action, protocol::Attempt seen,
                          const std::optional<Record>& found) {
  if (!found.has_value()) {
    return ChangeOutcome::Absent;
  }
  if (found->attempt != seen) {
    return ChangeOutcome::Stale;
  }
  return isAllowed(action, *found) ? ChangeOutcome::Done : ChangeOutcome::Refused;
}

AuditAction auditAction(const OperatorAction& action) {
  return std::visit(protocol::Overloaded{
                        [](const protocol::Completed&) { return AuditAction::ResolveCompleted; },
                        [](const NotRun&) { return AuditAction::ResolveNotRun; },
                        [](const Free&) { return AuditAction::Release; },
                        [](const Bust&) { return AuditAction::Bust; },
                        [](const AskAgain&) { return AuditAction::AskAgain; },
                        [](const GiveUp&) { return AuditAction::DeadLetter; },
                    },
                    action);
}

}  // namespace idempotency::store
