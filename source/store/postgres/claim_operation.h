#pragma once

#include <functional>

#include "source/store/postgres/duplicate_share.h"
#include "source/store/postgres/operation.h"
#include "source/store/postgres/record_reader.h"

namespace idempotency::postgres {

class ClaimOperation : public Operation {
public:
  // `duplicates` outlives it.
  ClaimOperation(ClaimRequest request, Deadline deadline, QueueBound::Ticket ticket,
                 DuplicateShare& duplicates, std::function<void(ClaimResult)> done);

  Lane lane() const override;
  const Identity* identity() const override { return &request_.identity; }
  size_t bytes() const override;
  StatementId bind(size_t index, Parameters& parameters) const override;
  Group group() const override;
  void bindMember(Arrays& arrays) const override;
  Attempt memberAttempt() const override;
  const std::string* countedTenant() const override;
  Next onResults(std::span<const Rows> results) override;
  Next onLost(const std::string& reason) override;
  void onRefused(const std::string& reason) override;
  void onDeadline(bool sent) override;
  bool finished() const override { return done_ == nullptr; }
  std::optional<Leftover> leftover() const override;
  bool abandon(const ClaimRef& claim) override;

private:
  enum class Step : uint8_t {
    Insert,
    Reclaim,
    Read,   // Nothing of ours was stored, or a duplicate is likely: whose is it?
    Count,  // Nobody's: then the tenant had no room?
  };

  // Whether the present step may store the claim.
  bool writes() const { return step_ == Step::Insert || step_ == Step::Reclaim; }
  Next onClaimed(const Rows& rows);
  Next onRead();
  Next onCount(bool over_quota);
  // Once more from the start: what was in the way has gone. Not for ever.
  Next again();
  bool wasRefusedByQuota(const Record& record) const;
  void finish(ClaimResult result);

  const ClaimRequest request_;
  std::function<void(ClaimResult)> done_;
  DuplicateShare& duplicates_;
  Step step_;
  bool tried_ = false;  // It has been sent as a claim.
  RecordReader reader_;
  uint8_t rounds_ = 0;
  bool abandoned_ = false;
  std::optional<Leftover> leftover_;
};

}  // namespace idempotency::postgres
