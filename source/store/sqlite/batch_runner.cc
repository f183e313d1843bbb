#include "source/store/sqlite/batch_runner.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace idempotency::sqlite {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Responses that duplicates get; with this much the batch ends, so that many duplicates of a large
// response do not all sit in memory at once.
constexpr size_t MaxResultBytes = size_t{16} << 20;

// How long the store's own releases wait for a lock at a time.
constexpr milliseconds OwnPatience{1000};

// A value that does not fit is the fault of one operation. Anything else is everybody's trouble.
bool isOwnFault(int error) {
  switch (error & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return true;
    default:
      return false;
  }
}

// What a commit that failed with this error left behind. Without space nothing whole was written.
// After any other error the commit may be in the log although this connection does not see it: it
// counts if the process dies now and somebody else reads the log.
Fate fateOfCommit(int error) {
  switch (error & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_FULL:
      return Fate::NotDone;
    default:
      return Fate::InDoubt;
  }
}

bool isWrite(const Operation* operation) {
  return operation->kind() != Operation::Kind::LookUp;
}

Deadline lockEnd(const std::vector<Operation*>& batch) {
  Deadline end = steady_clock::now();
  for (const Operation* operation : batch) {
    end =
        std::max(end, operation->kind() == Operation::Kind::Own ? steady_clock::now() + OwnPatience
                                                                : operation->deadline());
  }
  return end;
}

}  // namespace

BatchRunner::BatchRunner(std::string path, std::function<bool(Deadline)> awaited)
    : awaited_(std::move(awaited)),
      file_(std::move(path), [this] { return awaited_(lock_end_); }) {}

void BatchRunner::failAll(const Started& started, Fate fate, const std::string& reason) {
  for (Operation* const operation : started) {
    operation->fail(fate, reason);
  }
}

void BatchRunner::prepare() {
  lock_end_ = steady_clock::now() + OwnPatience;
  std::ignore = file_.ensureOpen();
}

size_t BatchRunner::run(const std::vector<Operation*>& batch) {
  lock_end_ = lockEnd(batch);
  const bool writes = std::any_of(batch.begin(), batch.end(), isWrite);
  const absl::Status open = file_.ensureOpen();
  const bool begun = open.ok() && file_.records().begin(writes);
  Started started;
  started.reserve(batch.size());
  size_t over = 0;
  size_t result_bytes = 0;
  for (Operation* const operation : batch) {
    if (result_bytes > MaxResultBytes) {
      break;
    }
    ++over;
    if (!operation->start()) {
      continue;
    }
    started.push_back(operation);
    if (!begun || file_.database().error() != SQLITE_OK) {
      continue;  // Gets its result with the others.
    }
    if (!carryOut(*operation, batch.size() == 1)) {
      started.pop_back();
    }
    result_bytes += operation->resultBytes();
  }
  if (!open.ok()) {
    failAll(started, Fate::NotDone, std::string(open.message()));
  } else {
    finish(started, writes);
  }
  return over;
}

// False: it failed by its own fault, and has its result.
bool BatchRunner::carryOut(Operation& operation, bool alone) {
  Database& database = file_.database();
  file_.records().openOperation(alone);
  operation.carryOut(file_.records());
  file_.records().closeOperation();
  if (!alone && isOwnFault(database.error()) && database.inTransaction()) {
    operation.fail(Fate::NotDone, database.message());
    database.clearError();
    return false;
  }
  return true;
}

void BatchRunner::finish(const Started& started, bool writes) {
  Database& database = file_.database();
  Fate fate = Fate::NotDone;
  if (file_.records().flush() && !file_.records().commit()) {
    fate = writes ? fateOfCommit(database.error()) : Fate::NotDone;
  }
  if (database.error() != SQLITE_OK) {
    const int error = database.error();
    const std::string message = database.message();
    database.rollBack();
    failAll(started, fate, message);
    file_.onFailure(error, message);
    return;
  }
  if (file_.hasMoved()) {
    failAll(started, writes ? Fate::InDoubt : Fate::NotDone, "the file was removed meanwhile");
    return;
  }
  file_.onSuccess();
}

void BatchRunner::tidy() {
  file_.tidy();
}

}  // namespace idempotency::sqlite
