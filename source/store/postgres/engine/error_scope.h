#pragma once

#include <cstdint>
#include <string_view>

namespace idempotency::postgres {

// What an error code affects.
enum class ErrorScope : uint8_t {
  Server,     // All statements: disk full, read-only, missing table, shutdown.
  Statement,  // Perhaps only this statement: a bad value, a locked row. Others are not affected.
  Transient,  // Disappears when the statement is repeated: deadlock, serialization failure.
};

// `sqlstate` is empty if libpq itself found the error.
[[nodiscard]] ErrorScope scopeOf(std::string_view sqlstate);

// Whether the session is unusable: only a new one can help.
[[nodiscard]] bool needsNewSession(std::string_view sqlstate);

// What an error means for the database as a whole.
enum class Evidence : uint8_t {
  None,     // Nothing: a bad value, a deadlock.
  Timeout,  // A lock or a timeout: affects this operation only, unless others have it, too.
  Outage,   // The database is not working.
};
[[nodiscard]] Evidence evidenceOf(std::string_view sqlstate);

// Whether it waited too long for a lock: it may wait again.
[[nodiscard]] bool isLockTimeout(std::string_view sqlstate);

}  // namespace idempotency::postgres
