#pragma once

#include <vector>

#include "source/store/postgres/operations/operation.h"
#include "source/store/postgres/operations/tenant_use.h"

namespace idempotency::postgres {

// Writes how many records tenants gained and lost. Internal to the store: needs no ticket. It is
// sent on its own, so that its locks are held only briefly.
class UseOperation : public Operation {
public:
  // `use` outlives it.
  UseOperation(std::vector<TenantUse::Change> changes, store::Deadline deadline, TenantUse& use);

  Lane lane() const override { return Lane::Solo; }
  bool isLastWord() const override { return true; }
  size_t statementCount() const override { return 2; }
  StatementId bind(size_t index, Parameters& parameters) const override;
  Next onResults(std::span<const Rows> results) override;
  Next onLost(const std::string& reason) override;
  void onRefused(const std::string& reason) override;
  void onDeadline(bool sent) override;
  bool finished() const override { return finished_; }

private:
  const std::vector<TenantUse::Change> changes_;
  TenantUse& use_;
  bool finished_ = false;
};

}  // namespace idempotency::postgres
