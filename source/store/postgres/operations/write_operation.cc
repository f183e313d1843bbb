#include "source/store/postgres/operations/write_operation.h"

#include <optional>
#include <utility>
#include <variant>

#include "source/store/record_rules.h"

namespace idempotency::postgres {
namespace {

constexpr int64_t NoTtl = -1;
constexpr uint8_t LockedRounds = 4;

std::optional<int64_t> count(const std::optional<std::chrono::milliseconds>& time) {
  return time.has_value() ? std::optional<int64_t>(time->count()) : std::nullopt;
}

// The parameters of each ending, after those of its claim.

StatementId bindEnding(const protocol::Completed& completed, Parameters& parameters) {
  parameters.int16(static_cast<int16_t>(completed.status));
  parameters.int16(completed.response_schema);
  parameters.int64(count(completed.ttl));
  if (completed.tombstone != protocol::Tombstone::None) {
    parameters.int16(static_cast<int16_t>(completed.tombstone));
    return StatementId::CompleteBare;
  }
  parameters.bytes(completed.response);
  return StatementId::Complete;
}

StatementId bindEnding(const protocol::Failed& failed, Parameters& parameters) {
  parameters.bytes(failed.error);
  return StatementId::Fail;
}

StatementId bindEnding(const protocol::Released&, Parameters&) {
  return StatementId::Release;
}

StatementId bindEnding(const protocol::Unknown& unknown, Parameters& parameters) {
  parameters.bytes(unknown.error);
  parameters.int64(count(unknown.reconcile_after));
  return StatementId::MarkUnknown;
}

}  // namespace

WriteOperation::WriteOperation(store::ClaimRef claim, protocol::Ending ending,
                               store::Deadline deadline, QueueBound::Ticket ticket, TenantUse& use,
                               std::function<void(store::WriteResult)> done)
    : Operation(deadline, std::move(ticket)),
      claim_(std::move(claim)),
      ending_(std::move(ending)),
      use_(use),
      done_(std::move(done)) {}

size_t WriteOperation::bytes() const {
  const protocol::Identity& id = claim_.identity;
  return id.tenant.size() + id.operation.size() + id.key.size() +
         (checking_ ? 0 : protocol::responseBytes(ending_));
}

StatementId WriteOperation::bind(size_t, Parameters& parameters) const {
  parameters.bytes(claim_.identity.tenant);
  parameters.bytes(claim_.identity.operation);
  parameters.bytes(claim_.identity.key);
  if (checking_) {
    return StatementId::ReadRecord;
  }
  parameters.int64(claim_.attempt);
  return std::visit([&](const auto& ending) { return bindEnding(ending, parameters); }, ending_);
}

Group WriteOperation::group() const {
  if (checking_) {
    return Group::Records;
  }
  const auto* const completed = std::get_if<protocol::Completed>(&ending_);
  return completed != nullptr && completed->tombstone == protocol::Tombstone::None
             ? Group::Completes
             : Group::None;
}

void WriteOperation::bindMember(Arrays& arrays) const {
  arrays.bytes(0, claim_.identity.tenant);
  arrays.bytes(1, claim_.identity.operation);
  arrays.bytes(2, claim_.identity.key);
  if (checking_) {
    return;
  }
  const auto& completed = std::get<protocol::Completed>(ending_);
  arrays.int64(3, claim_.attempt);
  arrays.int16(4, static_cast<int16_t>(completed.status));
  arrays.int16(5, completed.response_schema);
  arrays.int64(6, count(completed.ttl).value_or(NoTtl));
  arrays.bytes(7, completed.response);
}

Operation::Next WriteOperation::onResults(std::span<const Rows> results) {
  const Rows& rows = results.front();
  if (checking_) {
    const store::WriteOutcome outcome = judge(rows);
    if (outcome == store::WriteOutcome::Locked) {
      return onLocked();
    }
    finish(outcome, {});
    return Next::Finished;
  }
  if (std::holds_alternative<protocol::Released>(ending_) && !rows.empty()) {
    if (rows.int16(0, 0) == static_cast<int16_t>(ReleaseRow::Locked)) {
      return onLocked();
    }
    if (rows.int16(0, 0) == static_cast<int16_t>(ReleaseRow::Deleted)) {
      use_.onDeleted(claim_.identity.tenant, std::chrono::steady_clock::now());
    }
    finish(store::WriteOutcome::Done, {});
    return Next::Finished;
  }
  if (rows.changed()) {
    finish(store::WriteOutcome::Done, {});
    return Next::Finished;
  }
  checking_ = true;
  return finished() ? Next::Finished : Next::SendAgain;
}

// A heartbeat or the sweeper holds its lock only briefly. The caller decides whether to wait for a
// longer lock.
Operation::Next WriteOperation::onLocked() {
  if (++rounds_ >= LockedRounds) {
    finish(store::WriteOutcome::Locked, LockedReason);
  }
  checking_ = false;
  return finished() ? Next::Finished : Next::SendAgain;
}

store::WriteOutcome WriteOperation::judge(const Rows& rows) const {
  std::optional<store::RecordHead> found;
  if (!rows.empty()) {
    const store::Record record = readRecord(rows, 0);
    found = store::RecordHead{record.state, record.attempt};
  }
  // If it is still to be written, only a lock can have kept the write from it.
  return store::outcomeWithoutWrite(ending_, claim_.attempt, found)
      .value_or(store::WriteOutcome::Locked);
}

Operation::Next WriteOperation::onLost(const std::string& reason) {
  if (!checking_) {
    finish(store::WriteOutcome::InDoubt, reason);
  }
  return finished() ? Next::Finished : Next::SendAgain;
}

void WriteOperation::onRefused(const std::string& reason) {
  finish(checking_ ? store::WriteOutcome::InDoubt : store::WriteOutcome::Unavailable, reason);
}

void WriteOperation::onDeadline(bool sent) {
  finish(sent || checking_ ? store::WriteOutcome::InDoubt : store::WriteOutcome::Unavailable,
         DeadlineReason);
}

void WriteOperation::finish(store::WriteOutcome outcome, std::string reason) {
  const bool repeated = checking_ && outcome == store::WriteOutcome::Done;
  callBack(done_, store::WriteResult{outcome, std::move(reason), repeated});
}

}  // namespace idempotency::postgres
