#pragma once

#include <functional>
#include <optional>
#include <string>

#include "source/store/maintenance_store.h"
#include "source/store/postgres/operation.h"

namespace idempotency::postgres {

// What the background jobs have in common: they go alone, and one that failed or got lost is told
// as such and not sent again; the next round does its work.
template <typename Result>
class MaintenanceOperation : public Operation {
public:
  MaintenanceOperation(Deadline deadline, QueueBound::Ticket ticket,
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
  // These take longer than requests may: the server gives them until their deadline.
  StatementId bindTime(Parameters& parameters) const;

private:
  std::function<void(Result)> done_;
  mutable std::string time_;  // What the parameter shows.
};

class LeadOperation : public MaintenanceOperation<Leadership> {
public:
  LeadOperation(std::string owner, std::chrono::milliseconds lease, Deadline deadline,
                QueueBound::Ticket ticket, std::function<void(Leadership)> done);
  // To give up the lead.
  bool isLastWord() const override { return lease_.count() == 0; }
  StatementId bind(size_t index, Parameters& parameters) const override;
  Next onResults(std::span<const Rows> results) override;

private:
  const std::string owner_;
  const std::chrono::milliseconds lease_;
};

class SweepOperation : public MaintenanceOperation<MaintenanceResult> {
public:
  SweepOperation(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
                 Deadline deadline, QueueBound::Ticket ticket,
                 std::function<void(MaintenanceResult)> done);
  size_t statementCount() const override { return 2; }
  StatementId bind(size_t index, Parameters& parameters) const override;
  Next onResults(std::span<const Rows> results) override;

private:
  const uint32_t limit_;
  const std::optional<std::chrono::milliseconds> reconcile_after_;
};

// Three transactions: partitions are locked only while they are made or dropped.
class ReapOperation : public MaintenanceOperation<MaintenanceResult> {
public:
  ReapOperation(uint32_t limit, bool soft, Deadline deadline, QueueBound::Ticket ticket,
                std::function<void(MaintenanceResult)> done);
  size_t statementCount() const override { return 2; }
  StatementId bind(size_t index, Parameters& parameters) const override;
  Next onResults(std::span<const Rows> results) override;

private:
  enum class Step : uint8_t { Drop, Make, Reap };

  const uint32_t limit_;
  const bool soft_;
  Step step_ = Step::Drop;
};

}  // namespace idempotency::postgres
