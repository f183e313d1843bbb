#pragma once

#include <functional>
#include <optional>
#include <string>

#include "source/store/maintenance_store.h"
#include "source/store/postgres/operations/operation.h"

namespace idempotency::postgres {

// Common part of the background jobs: they are sent on their own, and one that failed or was lost
// is reported and not sent again; the next round does its work.
template <typename Result>
class MaintenanceOperation : public Operation {
public:
  MaintenanceOperation(store::Deadline deadline, QueueBound::Ticket ticket,
                       std::function<void(Result)> done)
      : Operation(deadline, std::move(ticket)), done_(std::move(done)) {}

  Lane lane() const override { return Lane::Solo; }
  Next onLost(const std::string& reason) override {
    onRefused(reason);
    return Next::Finished;
  }
  void onRefused(const std::string& reason) override {
    Result result;
    result.reason = reason;
    finish(std::move(result));
  }
  void onDeadline(bool) override { onRefused(DeadlineReason); }
  bool finished() const override { return done_ == nullptr; }

protected:
  void finish(Result result) { callBack(done_, std::move(result)); }
  // These may take longer than requests: the server gives them until their deadline.
  StatementId bindTime(Parameters& parameters) const;

private:
  std::function<void(Result)> done_;
  mutable std::string time_;  // What the parameter shows.
};

class LeadOperation : public MaintenanceOperation<store::Leadership> {
public:
  LeadOperation(std::string owner, std::chrono::milliseconds lease, store::Deadline deadline,
                QueueBound::Ticket ticket, std::function<void(store::Leadership)> done);
  // When it gives up the leadership.
  bool isLastWord() const override { return lease_.count() == 0; }
  StatementId bind(size_t index, Parameters& parameters) const override;
  Next onResults(std::span<const Rows> results) override;

private:
  const std::string owner_;
  const std::chrono::milliseconds lease_;
};

class SweepOperation : public MaintenanceOperation<store::MaintenanceResult> {
public:
  SweepOperation(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
                 store::Deadline deadline, QueueBound::Ticket ticket,
                 std::function<void(store::MaintenanceResult)> done);
  size_t statementCount() const override { return 2; }
  StatementId bind(size_t index, Parameters& parameters) const override;
  Next onResults(std::span<const Rows> results) override;

private:
  const uint32_t limit_;
  const std::optional<std::chrono::milliseconds> reconcile_after_;
};

// Four transactions: partitions are locked only while they are made or dropped, and what was reaped
// stays so if counting fails.
class ReapOperation : public MaintenanceOperation<store::MaintenanceResult> {
public:
  ReapOperation(uint32_t limit, bool soft, store::Deadline deadline, QueueBound::Ticket ticket,
                std::function<void(store::MaintenanceResult)> done);
  size_t statementCount() const override { return 2; }
  StatementId bind(size_t index, Parameters& parameters) const override;
  Next onResults(std::span<const Rows> results) override;

private:
  void readReaped(const Rows& rows);

  enum class Step : uint8_t { Drop, Make, Reap, Recount, Tidy };

  const uint32_t limit_;
  const bool soft_;
  Step step_ = Step::Drop;
  store::MaintenanceResult result_;  // Of the reaping, until the last step.
};

}  // namespace idempotency::postgres
