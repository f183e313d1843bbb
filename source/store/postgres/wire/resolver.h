#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "source/store/postgres/wire/conninfo.h"

namespace idempotency::postgres {

// What is needed to connect and may take long to find out.
struct Resolution {
  absl::StatusOr<std::vector<Host>> hosts;  // Each ready to be tried, in order.
  absl::StatusOr<std::string> password;     // Empty: none.
};

// Looks up host names and reads the password file, on a separate thread for each call: a name
// server that does not respond must not delay requests or the end of this process. `done` runs on
// that thread, or immediately if the thread cannot be started.
void resolve(std::vector<Host> hosts, std::string password_file,
             std::function<void(Resolution)> done);

// The same, on the caller's thread.
[[nodiscard]] Resolution resolveNow(const std::vector<Host>& hosts,
                                    const std::string& password_file);

}  // namespace idempotency::postgres
