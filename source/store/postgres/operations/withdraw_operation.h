#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "source/store/postgres/operations/operation.h"
#include "source/store/postgres/operations/tenant_use.h"

namespace idempotency::postgres {

// Releases an orphan. Internal to the store: needs no ticket.
class WithdrawOperation : public Operation {
public:
  // Whether something was released; none: not known, or it is locked.
  using Done = std::function<void(std::optional<bool>)>;

  WithdrawOperation(store::ClaimRef claim, store::Deadline deadline, TenantUse& use, Done done)
      : Operation(deadline, {}), claim_(std::move(claim)), use_(use), done_(std::move(done)) {}

  Lane lane() const override { return Lane::Write; }
  const protocol::Identity* identity() const override { return &claim_.identity; }
  bool isLastWord() const override { return true; }
  StatementId bind(size_t, Parameters& parameters) const override {
    parameters.bytes(claim_.identity.tenant);
    parameters.bytes(claim_.identity.operation);
    parameters.bytes(claim_.identity.key);
    parameters.int64(claim_.attempt);
    return StatementId::Release;
  }
  Next onResults(std::span<const Rows> results) override {
    const Rows& rows = results.front();
    if (!rows.empty() && rows.int16(0, 0) == static_cast<int16_t>(ReleaseRow::Deleted)) {
      use_.onDeleted(claim_.identity.tenant, std::chrono::steady_clock::now());
    }
    const bool locked =
        !rows.empty() && rows.int16(0, 0) == static_cast<int16_t>(ReleaseRow::Locked);
    callBack(done_, locked ? std::optional<bool>() : std::optional<bool>(!rows.empty()));
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
  const store::ClaimRef claim_;
  TenantUse& use_;
  Done done_;
};

}  // namespace idempotency::postgres
