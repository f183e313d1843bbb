#include "source/store/postgres/operations/record_reader.h"

namespace idempotency::postgres {

StatementId RecordReader::bind(const protocol::Identity& identity, Parameters& parameters) const {
  if (step_ == Step::Response) {
    Arrays attempts;
    attempts.int64(0, record_.attempt);
    attempts.moveAll(parameters);
    parameters.int64(expires_at_);
    parameters.int64(expires_at_);
    return StatementId::ReadResponses;
  }
  parameters.bytes(identity.tenant);
  parameters.bytes(identity.operation);
  parameters.bytes(identity.key);
  return StatementId::ReadRecord;
}

void RecordReader::bindMember(const protocol::Identity& identity, Arrays& arrays) const {
  if (step_ == Step::Response) {
    arrays.int64(0, record_.attempt);
    arrays.int64(1, expires_at_);
    return;
  }
  arrays.bytes(0, identity.tenant);
  arrays.bytes(1, identity.operation);
  arrays.bytes(2, identity.key);
}

void RecordReader::onRows(const Rows& rows) {
  if (step_ == Step::Response) {
    if (!rows.empty()) {
      record_.response = rows.bytes(0, 0);
    }
    step_ = Step::Done;
    return;
  }
  step_ = Step::Done;
  found_ = !rows.empty();
  if (found_) {
    record_ = readRecord(rows, 0);
    expires_at_ = rows.int64(0, RecordColumn::ExpiresAt);
    if (record_.state == protocol::RecordState::Completed &&
        record_.tombstone == protocol::Tombstone::None) {
      step_ = Step::Response;
    }
  }
}

}  // namespace idempotency::postgres
