#pragma once

#include <functional>
#include <variant>

#include "source/store/postgres/operation.h"

namespace idempotency::postgres {

// complete(), fail(), release(), markUnknown().
class WriteOperation : public Operation {
public:
  struct Release {
    ClaimRef claim;
  };
  using Request = std::variant<CompleteRequest, FailRequest, Release, UnknownRequest>;

  WriteOperation(Request request, Deadline deadline, QueueBound::Ticket ticket,
                 std::function<void(WriteResult)> done);

  Lane lane() const override { return checking_ ? Lane::Read : Lane::Write; }
  const Identity* identity() const override { return &claim().identity; }
  bool isLastWord() const override { return true; }
  size_t bytes() const override;
  StatementId bind(size_t index, Parameters& parameters) const override;
  Group group() const override;
  void bindMember(Arrays& arrays) const override;
  Attempt memberAttempt() const override { return claim().attempt; }
  Next onResults(std::span<const Rows> results) override;
  Next onLost(const std::string& reason) override;
  void onRefused(const std::string& reason) override;
  void onDeadline(bool sent) override;
  bool finished() const override { return done_ == nullptr; }

private:
  const ClaimRef& claim() const;
  // What the record says once the write changed nothing.
  WriteOutcome judge(const Rows& rows) const;
  void finish(WriteOutcome outcome, std::string reason);

  const Request request_;
  std::function<void(WriteResult)> done_;
  bool checking_ = false;  // The write changed nothing: was it done before, or are we fenced?
};

}  // namespace idempotency::postgres
