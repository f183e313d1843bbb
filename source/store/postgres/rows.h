#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "source/store/postgres/pq.h"
#include "source/store/record.h"

namespace idempotency::postgres {

// What a statement returned, in the binary format. A view: the result must outlive it.
class Rows {
public:
  explicit Rows(const PGresult* result) : result_(result) {}

  int count() const { return PQntuples(result_); }
  bool empty() const { return count() == 0; }
  // How many rows a write without RETURNING changed.
  bool changed() const;

  bool isNull(int row, int column) const { return PQgetisnull(result_, row, column) != 0; }
  // Empty for NULL.
  std::string_view bytes(int row, int column) const;
  int16_t int16(int row, int column) const;
  int64_t int64(int row, int column) const;
  bool boolean(int row, int column) const;

private:
  const PGresult* result_;
};

// A row of ReadKey, without its response; what depends on time is judged by the row's own now().
[[nodiscard]] Record readRecord(const Rows& rows, int row);

}  // namespace idempotency::postgres
