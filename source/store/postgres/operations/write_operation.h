#pragma once

#include <functional>

#include "source/protocol/ending.h"
#include "source/store/postgres/operations/operation.h"
#include "source/store/postgres/operations/tenant_use.h"

namespace idempotency::postgres {

// settle().
class WriteOperation : public Operation {
public:
  // `use` outlives it.
  WriteOperation(store::ClaimRef claim, protocol::Ending ending, store::Deadline deadline,
                 QueueBound::Ticket ticket, TenantUse& use,
                 std::function<void(store::WriteResult)> done);

  Lane lane() const override { return checking_ ? Lane::Read : Lane::Write; }
  const protocol::Identity* identity() const override { return &claim_.identity; }
  bool isLastWord() const override { return true; }
  size_t bytes() const override;
  StatementId bind(size_t index, Parameters& parameters) const override;
  Group group() const override;
  void bindMember(Arrays& arrays) const override;
  protocol::Attempt memberAttempt() const override { return claim_.attempt; }
  Next onResults(std::span<const Rows> results) override;
  Next onLost(const std::string& reason) override;
  void onRefused(const std::string& reason) override;
  void onDeadline(bool sent) override;
  bool finished() const override { return done_ == nullptr; }

private:
  Next onLocked();
  // What the record says after the write changed nothing.
  store::WriteOutcome judge(const Rows& rows) const;
  void finish(store::WriteOutcome outcome, std::string reason);

  const store::ClaimRef claim_;
  const protocol::Ending ending_;
  TenantUse& use_;
  std::function<void(store::WriteResult)> done_;
  uint8_t rounds_ = 0;     // How often it was found locked.
  bool checking_ = false;  // The write changed nothing: was it done before, or are we fenced?
};

}  // namespace idempotency::postgres
