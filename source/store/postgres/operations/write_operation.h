#pragma once

#include <functional>

#include "source/protocol/ending.h"
#include "source/store/postgres/operations/operation.h"
#include "source/store/postgres/operations/record_reader.h"
#include "source/store/postgres/operations/tenant_use.h"

namespace idempotency::postgres {

// settle().
class WriteOperation : public Operation {
public:
  // `use` outlives it.
  WriteOperation(store::ClaimRef claim, protocol::Ending ending, store::Deadline deadline,
                 QueueBound::Ticket ticket, TenantUse& use,
                 std::function<void(store::WriteResult)> done);

  Lane lane() const override { return step_ == Step::Write ? Lane::Write : Lane::Read; }
  const protocol::Identity* identity() const override { return &claim_.identity; }
  bool isLastWord() const override { return true; }
  size_t bytes() const override;
  StatementId bind(size_t index, Parameters& parameters) const override;
  Group group() const override;
  void bindMember(Arrays& arrays) const override;
  protocol::Attempt memberAttempt() const override;
  Next onResults(std::span<const Rows> results) override;
  Next onLost(const std::string& reason) override;
  void onRefused(const std::string& reason) override;
  void onDeadline(bool sent) override;
  bool finished() const override { return done_ == nullptr; }

private:
  enum class Step : uint8_t {
    Look,   // With own_transaction: has the upstream completed the record?
    Write,
    Check,  // The write changed nothing: was it done before, or are we fenced?
  };

  Next goTo(Step step);
  // The record, or its response, has been read.
  Next onRead();
  Next onLocked();
  // Nothing is written; this is the result.
  void finishRead(store::WriteOutcome outcome);
  void finish(store::WriteOutcome outcome, std::string reason);

  const store::ClaimRef claim_;
  const protocol::Ending ending_;
  TenantUse& use_;
  std::function<void(store::WriteResult)> done_;
  Step step_;
  RecordReader reader_;  // Of the steps that read.
  uint8_t rounds_ = 0;   // How often it was found locked.
};

}  // namespace idempotency::postgres
