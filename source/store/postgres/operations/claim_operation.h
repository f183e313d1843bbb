#pragma once

#include <functional>

#include "source/store/postgres/operations/duplicate_share.h"
#include "source/store/postgres/operations/operation.h"
#include "source/store/postgres/operations/record_reader.h"
#include "source/store/postgres/operations/tenant_use.h"

namespace idempotency::postgres {

class ClaimOperation : public Operation {
public:
  // `duplicates` and `use` outlive it.
  ClaimOperation(store::ClaimRequest request, store::Deadline deadline, QueueBound::Ticket ticket,
                 DuplicateShare& duplicates, TenantUse& use,
                 std::function<void(store::ClaimResult)> done);
  ~ClaimOperation() override;

  void onAccepted() override;
  Lane lane() const override;
  const protocol::Identity* identity() const override { return &request_.identity; }
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
  std::optional<Orphan> orphan() const override;
  bool abandon(const store::ClaimRef& claim) override;

private:
  enum class Step : uint8_t {
    Insert,
    Reclaim,
    Read,   // Nothing was stored, or a duplicate is likely: reads the record.
    Use,    // Under a quota, before it writes: how many records does the tenant have?
    Count,  // Few, or not known: up to a bound they are counted.
  };

  // Whether the current step may store the claim.
  bool writes() const { return step_ == Step::Insert || step_ == Step::Reclaim; }
  Next onClaimed(const Rows& rows);
  Next onRead();
  Next onUse(const Rows& rows);
  // Asks for a count of the tenant's records.
  Next count();
  Next onCount(const Rows& rows);
  // To a step that writes, or, under a quota, to what must precede it.
  void goTo(Step step);
  // As goTo(), after the quota has been checked.
  void goOn(bool has_room);
  void leave(bool added);
  // Starts again, because what was in the way is gone. A limited number of times.
  Next again();
  bool wasRefusedByQuota(const store::Record& record) const;
  void finish(store::ClaimResult result);

  const store::ClaimRequest request_;
  std::function<void(store::ClaimResult)> done_;
  DuplicateShare& duplicates_;
  TenantUse& use_;
  Step step_;
  bool tried_ = false;  // It has been sent as a claim.
  // Under a quota:
  Step next_ = Step::Insert;  // The next step after the tenant's use is known.
  uint64_t asked_at_ = 0;     // How often the use had been written then.
  uint64_t counted_at_ = 0;   // How many records had been added here when a count was asked for.
  uint8_t counts_ = 0;
  bool has_place_ = false;  // In the tenant's quota.
  bool tracked_ = true;     // The database keeps a number for the tenant.
  bool over_quota_ = false;
  RecordReader reader_;
  uint8_t rounds_ = 0;
  bool abandoned_ = false;
  std::optional<Orphan> orphan_;
};

}  // namespace idempotency::postgres
