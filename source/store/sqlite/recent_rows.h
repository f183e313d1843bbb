#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "source/store/store.h"

namespace idempotency::sqlite {

// The row ids of recent claims, which saves their completion a search by identity. May forget any
// of them. Only a hint: the row may no longer exist, or may never have been committed, and its id
// may belong to another record now. So always check identity and attempt, too.
class RecentRows {
public:
  void remember(protocol::Attempt attempt, int64_t id) { slot(attempt) = {attempt, id}; }

  std::optional<int64_t> find(protocol::Attempt attempt) {
    const Row& row = slot(attempt);
    return row.attempt == attempt ? std::optional<int64_t>(row.id) : std::nullopt;
  }

private:
  struct Row {
    protocol::Attempt attempt = 0;  // Of no claim.
    int64_t id = 0;
  };
  // Attempts are random, so their low bits spread well.
  Row& slot(protocol::Attempt attempt) {
    return rows_[static_cast<uint64_t>(attempt) % rows_.size()];
  }

  std::array<Row, 1024> rows_{};
};

}  // namespace idempotency::sqlite
