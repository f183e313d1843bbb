#pragma once

#include <chrono>
#include <optional>

#include "source/http/prefer.h"
#include "source/protocol/policy.h"

namespace idempotency::protocol {

// How long a request waits for its response before it gets 202. None: until the response comes,
// because the policy does not allow anything else or the client did not ask for it.
[[nodiscard]] std::optional<std::chrono::milliseconds> asyncWait(
    const Policy& policy, const http::Preferences& preferences);

}  // namespace idempotency::protocol
