#include "source/store/postgres/operations/write_operation.h"

#include <optional>
#include <utility>
#include <variant>

#include "source/store/record_rules.h"

namespace idempotency::postgres {
namespace {

constexpr int64_t NoTtl = -1;
constexpr uint8_t LockedRounds = 4;
// With own_transaction, the upstream's transaction has probably locked it, for much longer than a
// round takes. When the database is slow, many of them are open at once.
constexpr uint8_t OwnLockedRounds = 1;

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
      done_(std::move(done)),
      step_(claim_.own_transaction ? Step::Look : Step::Write) {}

size_t WriteOperation::bytes() const {
  const protocol::Identity& id = claim_.identity;
  return id.tenant.size() + id.operation.size() + id.key.size() +
         (step_ == Step::Write ? protocol::responseBytes(ending_) : 0);
}

StatementId WriteOperation::bind(size_t, Parameters& parameters) const {
  if (step_ != Step::Write) {
    return reader_.bind(claim_.identity, parameters);
  }
  parameters.bytes(claim_.identity.tenant);
  parameters.bytes(claim_.identity.operation);
  parameters.bytes(claim_.identity.key);
  parameters.int64(claim_.attempt);
  return std::visit([&](const auto& ending) { return bindEnding(ending, parameters); }, ending_);
}

Group WriteOperation::group() const {
  if (step_ != Step::Write) {
    return reader_.group();
  }
  const auto* const completed = std::get_if<protocol::Completed>(&ending_);
  return completed != nullptr && completed->tombstone == protocol::Tombstone::None
             ? Group::Completes
             : Group::None;
}

void WriteOperation::bindMember(Arrays& arrays) const {
  if (step_ != Step::Write) {
    reader_.bindMember(claim_.identity, arrays);
    return;
  }
  arrays.bytes(0, claim_.identity.tenant);
  arrays.bytes(1, claim_.identity.operation);
  arrays.bytes(2, claim_.identity.key);
  const auto& completed = std::get<protocol::Completed>(ending_);
  arrays.int64(3, claim_.attempt);
  arrays.int16(4, static_cast<int16_t>(completed.status));
  arrays.int16(5, completed.response_schema);
  arrays.int64(6, count(completed.ttl).value_or(NoTtl));
  arrays.bytes(7, completed.response);
}

protocol::Attempt WriteOperation::memberAttempt() const {
  return step_ == Step::Write ? claim_.attempt : reader_.memberAttempt();
}

Operation::Next WriteOperation::onResults(std::span<const Rows> results) {
  const Rows& rows = results.front();
  if (step_ != Step::Write) {
    reader_.onRows(rows);
    return onRead();
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
  return goTo(Step::Check);
}

Operation::Next WriteOperation::goTo(Step step) {
  step_ = step;
  reader_ = RecordReader();
  return finished() ? Next::Finished : Next::SendAgain;
}

Operation::Next WriteOperation::onRead() {
  // Of a response, only that of the upstream's own transaction matters.
  const bool is_elsewhere = reader_.found() && isCompletedElsewhere(claim_, reader_.record());
  if (is_elsewhere && reader_.step() == RecordReader::Step::Response) {
    return finished() ? Next::Finished : Next::SendAgain;
  }
  if (is_elsewhere) {
    finishRead(store::WriteOutcome::Done);
    return Next::Finished;
  }
  std::optional<store::RecordHead> head;
  if (reader_.found()) {
    head = store::RecordHead{reader_.record().state, reader_.record().attempt};
  }
  if (const auto outcome = store::outcomeWithoutWrite(ending_, claim_.attempt, head)) {
    finishRead(*outcome);
    return Next::Finished;
  }
  // After a write, only a lock can have kept it from the record.
  return step_ == Step::Check ? onLocked() : goTo(Step::Write);
}

// A heartbeat or the sweeper holds its lock only briefly. The caller decides whether to wait for a
// longer lock.
Operation::Next WriteOperation::onLocked() {
  if (++rounds_ >= (claim_.own_transaction ? OwnLockedRounds : LockedRounds)) {
    finish(store::WriteOutcome::Locked, LockedReason);
  }
  return goTo(Step::Write);
}

Operation::Next WriteOperation::onLost(const std::string& reason) {
  if (step_ == Step::Write) {
    finish(store::WriteOutcome::InDoubt, reason);
  }
  return finished() ? Next::Finished : Next::SendAgain;
}

void WriteOperation::onRefused(const std::string& reason) {
  finish(step_ == Step::Check ? store::WriteOutcome::InDoubt : store::WriteOutcome::Unavailable,
         reason);
}

void WriteOperation::onDeadline(bool sent) {
  const bool in_doubt = step_ == Step::Check || (step_ == Step::Write && sent);
  finish(in_doubt ? store::WriteOutcome::InDoubt : store::WriteOutcome::Unavailable,
         DeadlineReason);
}

void WriteOperation::finishRead(store::WriteOutcome outcome) {
  store::WriteResult result{outcome, {}, outcome == store::WriteOutcome::Done};
  if (reader_.found() && isCompletedElsewhere(claim_, reader_.record())) {
    result.completed = std::move(reader_.record());
  }
  callBack(done_, std::move(result));
}

void WriteOperation::finish(store::WriteOutcome outcome, std::string reason) {
  callBack(done_, store::WriteResult{outcome, std::move(reason)});
}

}  // namespace idempotency::postgres
