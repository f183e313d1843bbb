#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "source/store/sqlite/clock_guard.h"
#include "source/store/sqlite/file.h"
#include "source/store/sqlite/operation.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// Carries out batches of operations, each batch in one transaction. I/O thread.
class BatchRunner {
public:
  // `awaited`: whether to continue waiting for a lock, given that a caller waits until then.
  BatchRunner(std::string path, std::function<bool(store::Deadline)> awaited, Uptime uptime);

  // Opens the file before the first batch, which gets the error if it fails.
  void prepare();

  // Returns more operations for the current transaction; none: it ends.
  using More = std::function<std::vector<Operation*>()>;

  struct Done {
    size_t over = 0;        // So many from the front have their result.
    bool succeeded = true;  // The transaction ended well.
  };

  // Carries out as many from the front as fit in memory with their results, at least one; cancelled
  // ones are skipped. Calls `more` when all are done, unless there were only lookups or something
  // failed.
  Done run(std::vector<Operation*> batch, const More& more);

  // Moves the log into the file if it has grown long. After the callbacks, because it takes a
  // while.
  void tidy();

private:
  // The part of a batch that was started.
  using Started = std::vector<Operation*>;
  struct Progress {
    Started started;
    size_t over = 0;
    size_t result_bytes = 0;
  };

  Done failUnopened(const std::vector<Operation*>& batch, const absl::Status& open);
  // Whether the transaction may continue with others. `begun`: it was started.
  bool carryOut(const std::vector<Operation*>& operations, bool begun, Progress& progress);
  void carryOut(Operation& operation);
  void redoApart(Started& started, bool writes);
  void failAll(const Started& started, Fate fate, const std::string& reason);
  // Whether the transaction ended well.
  bool finish(const Started& started, bool writes);

  const std::function<bool(store::Deadline)> awaited_;
  store::Deadline lock_end_{};
  File file_;
};

}  // namespace idempotency::sqlite
