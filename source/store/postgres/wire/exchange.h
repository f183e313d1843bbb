#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "source/store/postgres/wire/pq.h"

namespace idempotency::postgres {

// Collects the results of one Sync on a connection in pipeline mode. A claim counts as claimed only
// at the Sync, because that is when the server commits.
class Exchange {
public:
  // `expected`: statements before the Sync.
  explicit Exchange(size_t expected) { results_.reserve(expected); }

  enum class Progress : uint8_t {
    Lost,  // The connection is unusable.
    Working,
    Synced,
  };
  // Reads what has arrived. Call it when the socket is readable.
  [[nodiscard]] Progress read(PGconn* connection);

  // Once it is synced: the first error, or null.
  const PGresult* error() const;
  std::vector<PqResult>& results() { return results_; }

private:
  Progress takeResults(PGconn* connection);

  std::vector<PqResult> results_;
};

}  // namespace idempotency::postgres
