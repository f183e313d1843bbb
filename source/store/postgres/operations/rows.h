#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "source/store/postgres/wire/pq.h"
#include "source/store/record.h"

namespace idempotency::postgres {

// What a statement returned, or a part of its rows, in the binary format. A view: the result must
// outlive it.
class Rows {
public:
  explicit Rows(const PGresult* result) : result_(result), count_(PQntuples(result)) {}
  Rows(const PGresult* result, int first, int count)
      : result_(result), first_(first), count_(count) {}

  int count() const { return count_; }
  bool empty() const { return count() == 0; }
  // Whether a write changed anything: it returned rows or, without RETURNING, a row count.
  bool changed() const;

  bool isNull(int row, int column) const { return PQgetisnull(result_, first_ + row, column) != 0; }
  // Empty for NULL.
  std::string_view bytes(int row, int column) const;
  int16_t int16(int row, int column) const;
  int64_t int64(int row, int column) const;
  bool boolean(int row, int column) const;

private:
  const PGresult* result_;
  int first_ = 0;
  int count_ = 0;
};

// A row of ReadRecord, without its response; what depends on time is judged by the row's own now().
[[nodiscard]] store::Record readRecord(const Rows& rows, int row);

}  // namespace idempotency::postgres
