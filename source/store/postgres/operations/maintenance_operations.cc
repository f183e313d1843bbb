#include "source/store/postgres/operations/maintenance_operations.h"

#include <algorithm>

namespace idempotency::postgres {
namespace {

using std::chrono::milliseconds;

// How many claims one sweep looks at.
constexpr int64_t SweepScan = 50'000;

// The longest ttl is 30 days, and the first day may have begun.
constexpr int32_t DaysAhead = 35;

// Tenants in one step of the reaper.
constexpr int64_t MostRecounts = 20;

// Rows of unsettled in one step of the reaper.
constexpr int64_t TidiedRows = 10'000;

}  // namespace

template <typename Result>
StatementId MaintenanceOperation<Result>::bindTime(Parameters& parameters) const {
  const auto left =
      std::chrono::ceil<milliseconds>(deadline() - std::chrono::steady_clock::now()).count();
  time_ = std::to_string(std::clamp<int64_t>(left, 100, 3'600'000));
  parameters.bytes(time_);
  return StatementId::AllowTime;
}

LeadOperation::LeadOperation(std::string owner, milliseconds lease, store::Deadline deadline,
                             QueueBound::Ticket ticket, std::function<void(store::Leadership)> done)
    : MaintenanceOperation(deadline, std::move(ticket), std::move(done)),
      owner_(std::move(owner)),
      lease_(lease) {}

StatementId LeadOperation::bind(size_t, Parameters& parameters) const {
  parameters.bytes(owner_);
  parameters.int64(lease_.count());
  return StatementId::Lead;
}

Operation::Next LeadOperation::onResults(std::span<const Rows> results) {
  const Rows& rows = results.front();
  finish({.ours = !rows.empty() && rows.boolean(0, 0), .reason = {}});
  return Next::Finished;
}

SweepOperation::SweepOperation(uint32_t limit, std::optional<milliseconds> reconcile_after,
                               store::Deadline deadline, QueueBound::Ticket ticket,
                               std::function<void(store::MaintenanceResult)> done)
    : MaintenanceOperation(deadline, std::move(ticket), std::move(done)),
      limit_(limit),
      reconcile_after_(reconcile_after) {}

StatementId SweepOperation::bind(size_t index, Parameters& parameters) const {
  if (index == 0) {
    return bindTime(parameters);
  }
  parameters.int64(int64_t{limit_});
  parameters.int64(reconcile_after_.has_value() ? std::optional<int64_t>(reconcile_after_->count())
                                                : std::nullopt);
  parameters.int64(SweepScan);
  return StatementId::Sweep;
}

Operation::Next SweepOperation::onResults(std::span<const Rows> results) {
  const Rows& rows = results[1];
  store::MaintenanceResult result;
  result.ok = rows.count() == 1;
  if (result.ok) {
    result.to_unknown = static_cast<uint64_t>(rows.int64(0, 0));
    result.to_retry = static_cast<uint64_t>(rows.int64(0, 1));
    result.more = rows.boolean(0, 2);
  }
  finish(std::move(result));
  return Next::Finished;
}

ReapOperation::ReapOperation(uint32_t limit, bool soft, store::Deadline deadline,
                             QueueBound::Ticket ticket,
                             std::function<void(store::MaintenanceResult)> done)
    : MaintenanceOperation(deadline, std::move(ticket), std::move(done)),
      limit_(limit),
      soft_(soft) {}

StatementId ReapOperation::bind(size_t index, Parameters& parameters) const {
  if (index == 0) {
    return bindTime(parameters);
  }
  switch (step_) {
    case Step::Drop:
      return StatementId::DropPartitions;
    case Step::Make:
      parameters.int32(DaysAhead);
      return StatementId::MakePartitions;
    case Step::Recount:
      parameters.int64(MostRecounts);
      return StatementId::RecountTenants;
    case Step::Tidy:
      parameters.int64(TidiedRows);
      return StatementId::TidyUnsettled;
    case Step::Reap:
      break;
  }
  parameters.int64(int64_t{limit_});
  parameters.boolean(soft_);
  return StatementId::Reap;
}

Operation::Next ReapOperation::onResults(std::span<const Rows> results) {
  switch (step_) {
    case Step::Drop:
      step_ = Step::Make;
      break;
    case Step::Make:
      step_ = Step::Reap;
      break;
    case Step::Reap:
      readReaped(results[1]);
      step_ = Step::Recount;
      break;
    case Step::Recount:
      step_ = Step::Tidy;
      break;
    case Step::Tidy:
      finish(std::move(result_));
      break;
  }
  return finished() ? Next::Finished : Next::SendAgain;
}

void ReapOperation::readReaped(const Rows& rows) {
  result_.ok = rows.count() == 1;
  if (result_.ok) {
    result_.expired = static_cast<uint64_t>(rows.int64(0, 0));
    result_.deleted = static_cast<uint64_t>(rows.int64(0, 1));
    result_.more = rows.boolean(0, 2);
  }
}

}  // namespace idempotency::postgres
