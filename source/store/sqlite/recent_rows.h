#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "source/store/store.h"

namespace idempotency::sqlite {

// Where the rows of recent claims are, which spares their completion a search by identity. Forgets
// at will. Only a hint: the row may be gone, or never have been committed, and its number may be
// another's now; so whoever uses it must also ask for identity and attempt.
class RecentRows {
public:
  void remember(Attempt attempt, int64_t id) { slot(attempt) = {attempt, id}; }

  std::optional<int64_t> find(Attempt attempt) {
    const Row& row = slot(attempt);
    return row.attempt == attempt ? std::optional<int64_t>(row.id) : std::nullopt;
  }

private:
  struct Row {
    Attempt attempt = 0;  // Of no claim.
    int64_t id = 0;
  };
  // Attempts are random, so their low bits spread well.
  Row& slot(Attempt attempt) { return rows_[static_cast<uint64_t>(attempt) % rows_.size()]; }

  std::array<Row, 1024> rows_{};
};

}  // namespace idempotency::sqlite
