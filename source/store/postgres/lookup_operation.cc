#include "source/store/postgres/lookup_operation.h"

#include <utility>

namespace idempotency::postgres {

LookUpOperation::LookUpOperation(Identity identity, Deadline deadline, QueueBound::Ticket ticket,
                                 std::function<void(LookUpResult)> done)
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
    finish(Absent{});
  }
  return Next::Finished;
}

Operation::Next LookUpOperation::onLost(const std::string&) {
  // A look-up changes nothing: it may be asked again.
  return finished() ? Next::Finished : Next::SendAgain;
}

void LookUpOperation::onRefused(const std::string& reason) {
  finish(Unavailable{reason});
}

void LookUpOperation::onDeadline(bool) {
  finish(Unavailable{DeadlineReason});
}

void LookUpOperation::finish(LookUpResult result) {
  callBack(done_, std::move(result));
}

}  // namespace idempotency::postgres
