#pragma once

#include <cstdint>
#include <string_view>

namespace idempotency::postgres {

// Whose fault an error is, as far as its code tells.
enum class ErrorScope : uint8_t {
  Server,     // Every statement would meet it: disk full, read-only, table gone, shutting down.
  Statement,  // Perhaps this statement alone: a bad value, a locked row. Strangers are not to
              // blame.
  Transient,  // Goes away by itself when the statement is sent again: deadlock, serialisation.
};

// `sqlstate` is empty where libpq itself found the error.
[[nodiscard]] ErrorScope scopeOf(std::string_view sqlstate);

// Whether the session is of no more use: only a new one can help.
[[nodiscard]] bool needsNewSession(std::string_view sqlstate);

// Whether the error tells of trouble with the database as a whole. Bad values never do; a lock or
// a time limit may.
[[nodiscard]] bool countsAsOutage(std::string_view sqlstate);

}  // namespace idempotency::postgres
