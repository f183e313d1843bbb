#pragma once

#include <functional>
#include <span>
#include <vector>

#include "source/store/postgres/operations/operation.h"

namespace idempotency::postgres {

// Operations that are sent together, under one Sync.
struct Batch {
  std::vector<OperationPtr> operations;

  // Adjacent operations that share a statement, or one operation with its own statements.
  struct Part {
    Group group = Group::None;
    size_t first = 0;
    size_t count = 1;
  };
  std::vector<Part> parts;

  bool empty() const { return operations.empty(); }
};

// Puts the operations into the order of locks and forms the parts. A part never changes that order.
void arrange(Batch& batch);

// How many statements it is.
[[nodiscard]] size_t statementCount(const Batch& batch);

// Calls `send` for each statement in turn, until it returns false.
bool forEachStatement(const Batch& batch, Parameters& parameters,
                      const std::function<bool(StatementId)>& send);

// The results of each operation, by its index. `results` has one entry per statement.
void forEachAnswer(const Batch& batch, std::span<const PqResult> results,
                   const std::function<void(size_t, std::span<const Rows>)>& tell);

}  // namespace idempotency::postgres
