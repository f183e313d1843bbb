#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "source/store/postgres/conninfo.h"

namespace idempotency::postgres {

// What a connect needs and what may take long to find out.
struct Resolution {
  absl::StatusOr<std::vector<Host>> hosts;  // Each ready to be tried, in order.
  absl::StatusOr<std::string> password;     // Empty: none.
};

// Looks up host names and reads the password file, on a thread of its own for each call: a name
// server that does not answer must hold up neither requests nor the end of this process.
// `done` runs on that thread, unless the thread cannot be started: then at once.
void resolve(std::vector<Host> hosts, std::string password_file,
             std::function<void(Resolution)> done);

// The same, on the caller's thread.
[[nodiscard]] Resolution resolveNow(const std::vector<Host>& hosts,
                                    const std::string& password_file);

}  // namespace idempotency::postgres
