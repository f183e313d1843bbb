#include "source/store/postgres/operations/lookup_operation.h"

#include <utility>

namespace idempotency::postgres {

LookUpOperation::LookUpOperation(protocol::Identity identity, store::Deadline deadline,
                                 QueueBound::Ticket ticket,
                                 std::function<void(store::LookUpResult)> done)
    : Operation(deadline, std::move(ticket)),
      identity_(std::move(identity)),
      done_(std::move(done)) {}

StatementId LookUpOperation::bind(size_t, Parameters& parameters) const {
  return reader_.bind(identity_, parameters);
}

Operation::Next LookUpOperation::onResults(std::span<const Rows> results) {
  reader_.onRows(results.front());
  if (reader_.step() != RecordReader::Step::Done) {
    return finished() ? Next::Finished : Next::SendAgain;
  }
  if (reader_.found()) {
    finish(std::move(reader_.record()));
  } else {
    finish(store::Absent{});
  }
  return Next::Finished;
}

Operation::Next LookUpOperation::onLost(const std::string&) {
  // A lookup changes nothing, so it may be repeated.
  return finished() ? Next::Finished : Next::SendAgain;
}

void LookUpOperation::onRefused(const std::string& reason) {
  finish(store::Unavailable{reason});
}

void LookUpOperation::onDeadline(bool) {
  finish(store::Unavailable{DeadlineReason});
}

void LookUpOperation::finish(store::LookUpResult result) {
  callBack(done_, std::move(result));
}

}  // namespace idempotency::postgres
