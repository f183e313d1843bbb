#include "source/protocol/record.h"

namespace idempotency::protocol {

bool isOver(RecordState state, bool past_life) {
  switch (state) {
    case RecordState::Expired:
      return true;
    case RecordState::Completed:
    case RecordState::FailedRetryable:
      return past_life;
    case RecordState::InProgress:
    case RecordState::Unknown:
      return false;
  }
  return false;
}

}  // namespace idempotency::protocol
