#include "source/store/postgres/operations/claim_operation.h"

#include <algorithm>
#include <utility>

#include "source/store/audit.h"
#include "source/store/postgres/wire/wire.h"
#include "source/store/record_rules.h"

namespace idempotency::postgres {
namespace {

// If other requests keep claiming and releasing the key, a claim could repeat its steps forever.
constexpr uint8_t MostRounds = 5;

// For a tenant with fewer records, each claim counts them: the maintained number lacks what other
// processes have not written yet, and includes expired records.
constexpr uint64_t CountedExactly = 500;

// A tenant that claims all the time could keep one of its claims counting. After so many counts,
// rather too many records than too few are assumed.
constexpr uint8_t MostCounts = 20;

store::MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

ClaimOperation::ClaimOperation(store::ClaimRequest request, store::Deadline deadline,
                               QueueBound::Ticket ticket, DuplicateShare& duplicates,
                               TenantUse& use, std::function<void(store::ClaimResult)> done)
    : Operation(deadline, std::move(ticket)),
      request_(std::move(request)),
      done_(std::move(done)),
      duplicates_(duplicates),
      use_(use),
      step_(request_.from.has_value() ? Step::Reclaim
            : duplicates.isHigh()     ? Step::Read
                                      : Step::Insert) {}

ClaimOperation::~ClaimOperation() {
  leave(false);
}

void ClaimOperation::onAccepted() {
  if (writes()) {
    goTo(step_);
  }
}

void ClaimOperation::goTo(Step step) {
  step_ = step;
  if (!request_.tenant_live_keys.has_value() || has_place_) {
    return;
  }
  next_ = step;
  const std::string& tenant = request_.identity.tenant;
  if (use_.isBelow(tenant, CountedExactly)) {
    count();
    return;
  }
  has_place_ = use_.enterUnasked(tenant, *request_.tenant_live_keys, now());
  if (!has_place_) {
    step_ = Step::Use;
    asked_at_ = use_.writes(tenant);
  }
}

Operation::Next ClaimOperation::onUse(const Rows& rows) {
  const std::string& tenant = request_.identity.tenant;
  tracked_ = !rows.empty();
  if (tracked_) {
    const auto records = static_cast<uint64_t>(rows.int64(0, 0));
    use_.onRead(tenant, records, asked_at_, now());
    if (records >= CountedExactly) {
      has_place_ = use_.enter(tenant, *request_.tenant_live_keys, now());
      goOn(has_place_);
      return Next::SendAgain;
    }
  }
  return count();
}

Operation::Next ClaimOperation::count() {
  step_ = Step::Count;
  counted_at_ = use_.additions(request_.identity.tenant);
  return Next::SendAgain;
}

Operation::Next ClaimOperation::onCount(const Rows& rows) {
  const std::string& tenant = request_.identity.tenant;
  // What was added since the count was asked for may be missing in it.
  const uint64_t missing = std::max(use_.additions(tenant), counted_at_) - counted_at_;
  if (missing > 0 && ++counts_ < MostCounts) {
    return count();
  }
  const auto records = static_cast<uint64_t>(rows.int64(0, 0)) + missing;
  const auto live = static_cast<uint64_t>(rows.int64(0, 1)) + missing;
  const bool complete = rows.boolean(0, 2);
  if (!tracked_) {
    use_.onFirstCount(tenant, records, now());
  } else if (!complete) {
    use_.onAtLeast(tenant, records, now());
  }
  has_place_ = complete ? use_.enterCounted(tenant, *request_.tenant_live_keys, live, now())
                        : use_.enter(tenant, *request_.tenant_live_keys, now());
  goOn(has_place_);
  return Next::SendAgain;
}

void ClaimOperation::goOn(bool has_room) {
  step_ = next_;
  if (has_room) {
    return;
  }
  use_.onRefused(request_.identity.tenant, now());
  over_quota_ = true;
  // An existing record is reported first. A re-claim may need no room.
  if (step_ == Step::Insert) {
    tried_ = true;
    step_ = Step::Read;
    reader_ = RecordReader();
  }
}

void ClaimOperation::leave(bool added) {
  if (std::exchange(has_place_, false)) {
    use_.leave(request_.identity.tenant, added, now());
  }
}

Lane ClaimOperation::lane() const {
  switch (step_) {
    case Step::Insert:
      return Lane::Insert;
    case Step::Reclaim:
      return Lane::Write;
    case Step::Read:
    case Step::Use:
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
  if (step_ == Step::Read) {
    return reader_.bind(request_.identity, parameters);
  }
  parameters.bytes(request_.identity.tenant);
  if (step_ == Step::Use) {
    return StatementId::ReadUse;
  }
  if (step_ == Step::Count) {
    parameters.int64(static_cast<int64_t>(CountedExactly));
    return StatementId::CountTenant;
  }
  parameters.bytes(request_.identity.operation);
  parameters.bytes(request_.identity.key);
  parameters.int64(request_.attempt);
  parameters.int16(request_.on_lease_expired == protocol::LeaseExpired::Retry ? 1 : 0);
  parameters.bytes(request_.fingerprint);
  parameters.int64(request_.lease.count());
  parameters.int64(request_.ttl.count());
  parameters.int16(request_.own_transaction ? 1 : 0);
  if (step_ == Step::Reclaim) {
    parameters.boolean(has_place_ || !request_.tenant_live_keys.has_value());
    parameters.int16(static_cast<int16_t>(request_.from->state));
    parameters.int64(request_.from->attempt);
    return StatementId::Reclaim;
  }
  return StatementId::Claim;
}

Group ClaimOperation::group() const {
  switch (step_) {
    case Step::Insert:
      return Group::Claims;
    case Step::Read:
      return reader_.group();
    case Step::Reclaim:
    case Step::Use:
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
  arrays.int16(4, request_.on_lease_expired == protocol::LeaseExpired::Retry ? 1 : 0);
  arrays.bytes(5, request_.fingerprint);
  arrays.int64(6, request_.lease.count());
  arrays.int64(7, request_.ttl.count());
  arrays.int16(8, request_.own_transaction ? 1 : 0);
}

protocol::Attempt ClaimOperation::memberAttempt() const {
  return step_ == Step::Read ? reader_.memberAttempt() : request_.attempt;
}

Operation::Next ClaimOperation::onResults(std::span<const Rows> results) {
  const Rows& rows = results.front();
  if (writes() && !rows.empty()) {
    return onClaimed(rows);
  }
  if (finished() || abandoned_) {
    finish(store::Unavailable{"abandoned"});
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
    case Step::Use:
      return onUse(rows);
    case Step::Count:
      return onCount(rows);
  }
  finish(store::Unavailable{"internal error: no such step"});
  return Next::Finished;
}

Operation::Next ClaimOperation::onClaimed(const Rows& rows) {
  // Any other record that was re-claimed is among those that the tenant has.
  leave(step_ == Step::Insert || request_.from->state == protocol::RecordState::Expired);
  if (finished() || abandoned_) {
    // The caller's deadline has passed: no request runs with this claim.
    orphan_ = Orphan{{request_.identity, request_.attempt}, true, request_.lease};
    finish(store::Unavailable{"abandoned"});
    return Next::Finished;
  }
  store::Claimed claimed{.attempt = request_.attempt,
                         .expires_at = toStoreTime(rows.int64(0, 0)),
                         .recovery_point = std::string(store::FirstRecoveryPoint)};
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
      finish(store::OverQuota{});
    } else if (store::mayReclaim(request_, reader_.record()) && ++rounds_ <= MostRounds) {
      // It was locked. Another claim holds the lock for a moment only, and will have changed the
      // record.
      step_ = Step::Reclaim;
      return Next::SendAgain;
    } else {
      duplicates_.add(true);
      finish(store::Exists{std::move(reader_.record())});
    }
    return Next::Finished;
  }
  if (!tried_) {
    goTo(Step::Insert);
    return Next::SendAgain;
  }
  if (over_quota_) {
    finish(store::OverQuota{});
    return Next::Finished;
  }
  return again();
}

// A re-claim that adds to the tenant's live records was short of room, if it had no place.
bool ClaimOperation::wasRefusedByQuota(const store::Record& record) const {
  const bool adds = record.state == protocol::RecordState::Expired || record.past_life;
  return over_quota_ && adds && store::mayReclaim(request_, record);
}

Operation::Next ClaimOperation::again() {
  if (++rounds_ > MostRounds) {
    finish(store::Unavailable{"other requests keep claiming and releasing the key"});
    return Next::Finished;
  }
  goTo(Step::Insert);
  return Next::SendAgain;
}

Operation::Next ClaimOperation::onLost(const std::string& reason) {
  if (writes()) {
    leave(true);  // It may be stored: it is withdrawn once its result is known.
    orphan_ = Orphan{{request_.identity, request_.attempt}, false, request_.lease};
    finish(store::InDoubt{reason});
  }
  if (abandoned_) {
    finish(store::Unavailable{"abandoned"});
  }
  return finished() ? Next::Finished : Next::SendAgain;
}

void ClaimOperation::onRefused(const std::string& reason) {
  finish(store::Unavailable{reason});
}

void ClaimOperation::onDeadline(bool sent) {
  if (sent && writes()) {
    finish(store::InDoubt{DeadlineReason});
  } else {
    finish(store::Unavailable{DeadlineReason});
  }
}

std::optional<Operation::Orphan> ClaimOperation::orphan() const {
  return orphan_;
}

bool ClaimOperation::abandon(const store::ClaimRef& claim) {
  if (claim.attempt != request_.attempt || claim.identity != request_.identity) {
    return false;
  }
  abandoned_ = true;
  return true;
}

void ClaimOperation::finish(store::ClaimResult result) {
  callBack(done_, std::move(result));
}

}  // namespace idempotency::postgres
