#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <postgresql/libpq-fe.h>

namespace idempotency::postgres {

struct PqDelete {
  void operator()(PGconn* connection) const { PQfinish(connection); }
  void operator()(PGresult* result) const { PQclear(result); }
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
using PqConnection = std::unique_ptr<PGconn, PqDelete>;
using PqResult = std::unique_ptr<PGresult, PqDelete>;
using PqOptions = std::unique_ptr<PQconninfoOption, PqDelete>;

// The five characters of the server's error code; empty where the error is libpq's own.
[[nodiscard]] std::string_view sqlState(const PGresult* result);

// Code and first line of an error, without the parts that may quote values of a row.
[[nodiscard]] std::string describeError(const PGresult* result);

// libpq's message about a failed connection, on one line.
[[nodiscard]] std::string describeError(const PGconn* connection);

}  // namespace idempotency::postgres
