#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

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

  // Carries out as many from the front as fit in memory with their results, at least one; how many.
  // Each of them has its result afterwards; those that were cancelled meanwhile are passed over.
  size_t run(const std::vector<Operation*>& batch);

  // Moves the log into the file if it has grown long. After the answers, since it takes a while.
  void tidy();

private:
  // The part of a batch that was started.
  using Started = std::vector<Operation*>;

  bool carryOut(Operation& operation, bool alone);
  void failAll(const Started& started, Fate fate, const std::string& reason);
  void finish(const Started& started, bool writes);

  const std::function<bool(Deadline)> awaited_;
  Deadline lock_end_{};
  File file_;
};

}  // namespace idempotency::sqlite
