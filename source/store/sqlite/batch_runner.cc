#include "source/store/sqlite/batch_runner.h"

#include <algorithm>
#include <iterator>
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

Fate fateOfCommit(int error) {
  return Database::mayBeCommitted(error) ? Fate::InDoubt : Fate::NotDone;
}

bool isWrite(const Operation* operation) {
  return operation->kind() != Operation::Kind::LookUp;
}

store::Deadline lockEnd(const std::vector<Operation*>& batch) {
  store::Deadline end = steady_clock::now();
  for (const Operation* operation : batch) {
    end =
        std::max(end, operation->kind() == Operation::Kind::Own ? steady_clock::now() + OwnPatience
                                                                : operation->deadline());
  }
  return end;
}

}  // namespace

BatchRunner::BatchRunner(std::string path, std::function<bool(store::Deadline)> awaited,
                         Uptime uptime)
    : awaited_(std::move(awaited)),
      file_(
          std::move(path), FileUse::Store, [this] { return awaited_(lock_end_); },
          std::move(uptime)) {}

void BatchRunner::failAll(const Started& started, Fate fate, const std::string& reason) {
  for (Operation* const operation : started) {
    operation->fail(fate, reason);
  }
}

void BatchRunner::prepare() {
  lock_end_ = steady_clock::now() + OwnPatience;
  std::ignore = file_.ensureOpen();
}

BatchRunner::Done BatchRunner::run(std::vector<Operation*> batch, const More& more) {
  lock_end_ = lockEnd(batch);
  const bool writes = std::any_of(batch.begin(), batch.end(), isWrite);
  const absl::Status open = file_.ensureOpen();
  if (!open.ok()) {
    return failUnopened(batch, open);
  }
  Progress progress;
  const bool begun = file_.records().begin(writes);
  // Only a transaction that writes can take in everything.
  while (carryOut(batch, begun, progress) && writes) {
    batch = more();
    if (batch.empty()) {
      break;
    }
  }
  if (progress.started.size() > 1 && isOwnFault(file_.database().error())) {
    redoApart(progress.started, writes);
  }
  const bool succeeded = finish(progress.started, writes);
  return {progress.over, succeeded};
}

BatchRunner::Done BatchRunner::failUnopened(const std::vector<Operation*>& batch,
                                            const absl::Status& open) {
  Started started;
  std::copy_if(batch.begin(), batch.end(), std::back_inserter(started),
               [](Operation* operation) { return operation->start(); });
  failAll(started, Fate::NotDone, std::string(open.message()));
  return {batch.size(), false};
}

bool BatchRunner::carryOut(const std::vector<Operation*>& operations, bool begun,
                           Progress& progress) {
  const Database& database = file_.database();
  for (Operation* const operation : operations) {
    if (progress.result_bytes > MaxResultBytes) {
      return false;
    }
    ++progress.over;
    if (!operation->start()) {
      continue;
    }
    progress.started.push_back(operation);
    if (!begun || database.error() != SQLITE_OK) {
      continue;  // Gets its result with the others.
    }
    carryOut(*operation);
    progress.result_bytes += operation->resultBytes();
    if (isOwnFault(database.error())) {
      return false;
    }
  }
  return begun && database.error() == SQLITE_OK;
}

void BatchRunner::carryOut(Operation& operation) {
  file_.records().openOperation();
  operation.carryOut(file_.records());
  file_.records().closeOperation();
}

// A savepoint per operation would cost more than its statements, so there are none until they are
// needed: then the batch is rolled back and repeated with savepoints. Operations that fail on their
// own get their result and are removed.
void BatchRunner::redoApart(Started& started, bool writes) {
  Database& database = file_.database();
  database.rollBack();
  if (!file_.records().begin(writes)) {
    return;
  }
  std::erase_if(started, [&](Operation* operation) {
    if (database.error() != SQLITE_OK) {
      return false;
    }
    file_.records().setSavepoint();
    carryOut(*operation);
    file_.records().dropSavepoint();
    if (!isOwnFault(database.error()) || !database.inTransaction()) {
      return false;
    }
    operation->fail(Fate::NotDone, database.message());
    database.clearError();
    return true;
  });
}

bool BatchRunner::finish(const Started& started, bool writes) {
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
    return false;
  }
  if (file_.hasMoved()) {
    failAll(started, writes ? Fate::InDoubt : Fate::NotDone,
            "the file was removed in the meantime");
    return false;
  }
  file_.onSuccess();
  return true;
}

void BatchRunner::tidy() {
  file_.tidy();
}

}  // namespace idempotency::sqlite
