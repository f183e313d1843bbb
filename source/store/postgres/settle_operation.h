#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "source/store/postgres/operation.h"

namespace idempotency::postgres {

// Releases a claim that nobody uses. The store's own: needs no ticket.
class SettleOperation : public Operation {
public:
  // Whether something was released; none: not known.
  using Done = std::function<void(std::optional<bool>)>;

  SettleOperation(ClaimRef claim, Deadline deadline, Done done)
      : Operation(deadline, {}), claim_(std::move(claim)), done_(std::move(done)) {}

  Lane lane() const override { return Lane::Write; }
  const Identity* identity() const override { return &claim_.identity; }
  bool isLastWord() const override { return true; }
  StatementId bind(size_t, Parameters& parameters) const override {
    parameters.bytes(claim_.identity.tenant);
    parameters.bytes(claim_.identity.operation);
    parameters.bytes(claim_.identity.key);
    parameters.int64(claim_.attempt);
    return StatementId::Release;
  }
  Next onResults(std::span<const Rows> results) override {
    callBack(done_, std::optional<bool>(results.front().changed()));
    return Next::Finished;
  }
  Next onLost(const std::string& reason) override {
    onRefused(reason);
    return Next::Finished;
  }
  void onRefused(const std::string&) override { callBack(done_, std::optional<bool>()); }
  void onDeadline(bool) override { callBack(done_, std::optional<bool>()); }
  bool finished() const override { return done_ == nullptr; }

private:
  const ClaimRef claim_;
  Done done_;
};

}  // namespace idempotency::postgres
