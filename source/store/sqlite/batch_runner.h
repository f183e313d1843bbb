#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "source/store/sqlite/file.h"
#include "source/store/sqlite/operation.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// Carries out batches of operations, each batch in one transaction. I/O thread.
class BatchRunner {
public:
  // `awaited`: whether to go on waiting for a lock for somebody who waits until then.
  BatchRunner(std::string path, std::function<bool(Deadline)> awaited);

  // Opens the file ahead of the first batch; what fails is told to that one.
  void prepare();

  // Gives more operations for a transaction that is under way; none: it ends.
  using More = std::function<std::vector<Operation*>()>;

  // Carries out as many from the front as fit in memory with their results, at least one; how many.
  // Each of them has its result afterwards; those that were cancelled meanwhile are passed over.
  // `more` is asked when all is carried out, unless that was only look-ups or something failed.
  size_t run(std::vector<Operation*> batch, const More& more);

  // Moves the log into the file if it has grown long. After the answers, since it takes a while.
  void tidy();

private:
  // The part of a batch that was started.
  using Started = std::vector<Operation*>;
  struct Progress {
    Started started;
    size_t over = 0;
    size_t result_bytes = 0;
  };

  size_t failUnopened(const std::vector<Operation*>& batch, const absl::Status& open);
  // Whether the transaction may go on with others. `begun`: it could be begun.
  bool carryOut(const std::vector<Operation*>& operations, bool begun, Progress& progress);
  void carryOut(Operation& operation);
  void redoApart(Started& started, bool writes);
  void failAll(const Started& started, Fate fate, const std::string& reason);
  void finish(const Started& started, bool writes);

  const std::function<bool(Deadline)> awaited_;
  Deadline lock_end_{};
  File file_;
};

}  // namespace idempotency::sqlite
