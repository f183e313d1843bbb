#pragma once

#include <cstdint>

#include "source/store/postgres/operations/operation.h"
#include "source/store/postgres/operations/rows.h"
#include "source/store/postgres/schema/statements.h"
#include "source/store/postgres/wire/parameters.h"
#include "source/store/store.h"

namespace idempotency::postgres {

// Reads a record in one or two steps: its row and then, if there is one, its response. Between them
// the record may go: its response is then missing, which refuses a replay.
class RecordReader {
public:
  enum class Step : uint8_t { Key, Response, Done };

  Step step() const { return step_; }
  StatementId bind(const protocol::Identity& identity, Parameters& parameters) const;
  Group group() const { return step_ == Step::Response ? Group::Responses : Group::Records; }
  void bindMember(const protocol::Identity& identity, Arrays& arrays) const;
  protocol::Attempt memberAttempt() const { return record_.attempt; }
  // Takes what the step returned, and moves on.
  void onRows(const Rows& rows);
  // What was found; once it is done. Absent: nothing.
  bool found() const { return found_; }
  store::Record& record() { return record_; }

private:
  Step step_ = Step::Key;
  bool found_ = false;
  int64_t expires_at_ = 0;  // As the server has it, to the microsecond.
  store::Record record_;
};

}  // namespace idempotency::postgres
