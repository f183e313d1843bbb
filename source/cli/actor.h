#pragma once

#include <string>

namespace idempotency::cli {

// Who runs this program, for the audit: "user@host".
std::string currentActor();

}  // namespace idempotency::cli
