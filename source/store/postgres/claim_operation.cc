#include "source/store/postgres/claim_operation.h"

#include <utility>

#include "source/store/audit.h"
#include "source/store/postgres/wire.h"

namespace idempotency::postgres {
namespace {

// A key that is claimed and released all the time could keep one of its claims going round.
constexpr uint8_t MostRounds = 5;

}  // namespace

ClaimOperation::ClaimOperation(ClaimRequest request, Deadline deadline, QueueBound::Ticket ticket,
                               DuplicateShare& duplicates, std::function<void(ClaimResult)> done)
    : Operation(deadline, std::move(ticket)),
      request_(std::move(request)),
      done_(std::move(done)),
      duplicates_(duplicates),
      step_(request_.from.has_value() ? Step::Reclaim
            : duplicates.isHigh()     ? Step::Read
                                      : Step::Insert) {}

Lane ClaimOperation::lane() const {
  switch (step_) {
    case Step::Insert:
      return Lane::Insert;
    case Step::Reclaim:
      return Lane::Write;
    case Step::Read:
    case Step::Count:
      break;
  }
  return Lane::Read;
}

size_t ClaimOperation::bytes() const {
  return request_.identity.tenant.size() + request_.identity.operation.size() +
         request_.identity.key.size() + request_.fingerprint.size();
}

StatementId ClaimOperation::bind(size_t, Parameters& parameters) const {
  const std::optional<int64_t> cap =
      request_.tenant_live_keys.has_value()
          ? std::optional<int64_t>(static_cast<int64_t>(*request_.tenant_live_keys))
          : std::nullopt;
  if (step_ == Step::Read) {
    return reader_.bind(request_.identity, parameters);
  }
  parameters.bytes(request_.identity.tenant);
  if (step_ == Step::Count) {
    parameters.int64(cap);
    return StatementId::CountTenant;
  }
  parameters.bytes(request_.identity.operation);
  parameters.bytes(request_.identity.key);
  parameters.int64(request_.attempt);
  parameters.int16(request_.on_lease_expired == LeaseExpired::Retry ? 1 : 0);
  parameters.bytes(request_.fingerprint);
  parameters.int64(request_.lease.count());
  parameters.int64(request_.ttl.count());
  if (step_ == Step::Reclaim) {
    parameters.int64(cap);
    parameters.int16(static_cast<int16_t>(request_.from->state));
    parameters.int64(request_.from->attempt);
    return StatementId::Reclaim;
  }
  if (cap.has_value()) {
    parameters.int64(cap);
    return StatementId::ClaimInQuota;
  }
  return StatementId::Claim;
}

Group ClaimOperation::group() const {
  switch (step_) {
    case Step::Insert:
      return request_.tenant_live_keys.has_value() ? Group::None : Group::Claims;
    case Step::Read:
      return reader_.group();
    case Step::Reclaim:
    case Step::Count:
      break;
  }
  return Group::None;
}

void ClaimOperation::bindMember(Arrays& arrays) const {
  if (step_ == Step::Read) {
    reader_.bindMember(request_.identity, arrays);
    return;
  }
  arrays.bytes(0, request_.identity.tenant);
  arrays.bytes(1, request_.identity.operation);
  arrays.bytes(2, request_.identity.key);
  arrays.int64(3, request_.attempt);
  arrays.int16(4, request_.on_lease_expired == LeaseExpired::Retry ? 1 : 0);
  arrays.bytes(5, request_.fingerprint);
  arrays.int64(6, request_.lease.count());
  arrays.int64(7, request_.ttl.count());
}

Attempt ClaimOperation::memberAttempt() const {
  return step_ == Step::Read ? reader_.memberAttempt() : request_.attempt;
}

const std::string* ClaimOperation::countedTenant() const {
  return request_.tenant_live_keys.has_value() && writes() ? &request_.identity.tenant : nullptr;
}

Operation::Next ClaimOperation::onResults(std::span<const Rows> results) {
  const Rows& rows = results.front();
  if (writes() && !rows.empty()) {
    return onClaimed(rows);
  }
  if (finished() || abandoned_) {
    finish(Unavailable{"abandoned"});
    return Next::Finished;
  }
  switch (step_) {
    case Step::Insert:
    case Step::Reclaim:
      tried_ = true;
      // A separate statement, with a snapshot of its own: it sees what was committed while the
      // insert waited for it.
      step_ = Step::Read;
      reader_ = RecordReader();
      return Next::SendAgain;
    case Step::Read:
      reader_.onRows(rows);
      return reader_.step() == RecordReader::Step::Done ? onRead() : Next::SendAgain;
    case Step::Count:
      return onCount(!rows.empty() && rows.boolean(0, 0));
  }
  finish(Unavailable{"internal error: no such step"});
  return Next::Finished;
}

Operation::Next ClaimOperation::onClaimed(const Rows& rows) {
  if (finished() || abandoned_) {
    // Too late for whoever asked: nobody runs for it.
    leftover_ = Leftover{{request_.identity, request_.attempt}, true, request_.lease};
    finish(Unavailable{"abandoned"});
    return Next::Finished;
  }
  Claimed claimed{.attempt = request_.attempt,
                  .expires_at = toStoreTime(rows.int64(0, 0)),
                  .recovery_point = std::string(FirstRecoveryPoint)};
  if (step_ == Step::Reclaim) {
    claimed.recovery_point = rows.bytes(0, 1);
  }
  duplicates_.add(false);
  finish(std::move(claimed));
  return Next::Finished;
}

Operation::Next ClaimOperation::onRead() {
  if (reader_.found()) {
    if (wasRefusedByQuota(reader_.record())) {
      finish(OverQuota{});
    } else {
      duplicates_.add(true);
      finish(Exists{std::move(reader_.record())});
    }
    return Next::Finished;
  }
  if (!tried_) {
    step_ = Step::Insert;
    return Next::SendAgain;
  }
  if (request_.tenant_live_keys.has_value()) {
    step_ = Step::Count;
    return Next::SendAgain;
  }
  return again();
}

// A re-claim whose reason still holds can only have failed for want of room.
bool ClaimOperation::wasRefusedByQuota(const Record& record) const {
  return request_.from.has_value() && request_.tenant_live_keys.has_value() &&
         record.state == request_.from->state && record.attempt == request_.from->attempt &&
         (record.state == RecordState::Expired ||
          (record.state == RecordState::FailedRetryable && record.past_life) ||
          (record.state == RecordState::Completed && record.past_life) ||
          (record.state == RecordState::InProgress && !record.lease_alive && record.past_life));
}

Operation::Next ClaimOperation::onCount(bool over_quota) {
  // A re-claim's record has gone: it has not yet been tried as a new claim.
  if (over_quota) {
    finish(OverQuota{});
    return Next::Finished;
  }
  return again();
}

Operation::Next ClaimOperation::again() {
  if (++rounds_ > MostRounds) {
    finish(Unavailable{"the key is claimed and released all the time"});
    return Next::Finished;
  }
  step_ = Step::Insert;
  return Next::SendAgain;
}

Operation::Next ClaimOperation::onLost(const std::string& reason) {
  if (writes()) {
    leftover_ = Leftover{{request_.identity, request_.attempt}, false, request_.lease};
    finish(InDoubt{reason});
  }
  if (abandoned_) {
    finish(Unavailable{"abandoned"});
  }
  return finished() ? Next::Finished : Next::SendAgain;
}

void ClaimOperation::onRefused(const std::string& reason) {
  finish(Unavailable{reason});
}

void ClaimOperation::onDeadline(bool sent) {
  if (sent && writes()) {
    finish(InDoubt{DeadlineReason});
  } else {
    finish(Unavailable{DeadlineReason});
  }
}

std::optional<Operation::Leftover> ClaimOperation::leftover() const {
  return leftover_;
}

bool ClaimOperation::abandon(const ClaimRef& claim) {
  if (claim.attempt != request_.attempt || claim.identity != request_.identity) {
    return false;
  }
  abandoned_ = true;
  return true;
}

void ClaimOperation::finish(ClaimResult result) {
  callBack(done_, std::move(result));
}

}  // namespace idempotency::postgres
