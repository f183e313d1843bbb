#pragma once

#include <functional>

#include "source/store/postgres/operations/operation.h"
#include "source/store/postgres/operations/record_reader.h"

namespace idempotency::postgres {

class LookUpOperation : public Operation {
public:
  LookUpOperation(protocol::Identity identity, store::Deadline deadline, QueueBound::Ticket ticket,
                  std::function<void(store::LookUpResult)> done);

  Lane lane() const override { return Lane::Read; }
  const protocol::Identity* identity() const override { return &identity_; }
  StatementId bind(size_t index, Parameters& parameters) const override;
  Group group() const override { return reader_.group(); }
  void bindMember(Arrays& arrays) const override { reader_.bindMember(identity_, arrays); }
  protocol::Attempt memberAttempt() const override { return reader_.memberAttempt(); }
  Next onResults(std::span<const Rows> results) override;
  Next onLost(const std::string& reason) override;
  void onRefused(const std::string& reason) override;
  void onDeadline(bool sent) override;
  bool finished() const override { return done_ == nullptr; }

private:
  void finish(store::LookUpResult result);

  const protocol::Identity identity_;
  std::function<void(store::LookUpResult)> done_;
  RecordReader reader_;
};

}  // namespace idempotency::postgres
