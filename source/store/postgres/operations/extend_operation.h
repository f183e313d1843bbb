#pragma once

#include <functional>
#include <vector>

#include "source/store/postgres/operations/operation.h"

namespace idempotency::postgres {

// A heartbeat: one statement for many claims, in a batch of its own.
class ExtendOperation : public Operation {
public:
  ExtendOperation(std::vector<store::ClaimRef> claims, std::chrono::milliseconds lease,
                  store::Deadline deadline, QueueBound::Ticket ticket,
                  std::function<void(store::ExtendResult)> done);

  Lane lane() const override { return Lane::Solo; }
  StatementId bind(size_t index, Parameters& parameters) const override;
  Next onResults(std::span<const Rows> results) override;
  Next onLost(const std::string& reason) override;
  void onRefused(const std::string& reason) override;
  void onDeadline(bool sent) override;
  bool finished() const override { return done_ == nullptr; }

private:
  void finish(store::ExtendResult result);
  void finishAll(store::WriteOutcome outcome, const std::string& reason);

  const std::vector<store::ClaimRef> claims_;
  std::vector<const store::ClaimRef*> sorted_;
  const std::chrono::milliseconds lease_;
  std::function<void(store::ExtendResult)> done_;
};

}  // namespace idempotency::postgres
