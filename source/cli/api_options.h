#pragma once

#include <array>
#include <chrono>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "source/cli/arguments.h"
#include "source/operator_client/access.h"

namespace idempotency::cli {

// How to reach a store through the operator API of an Envoy.
inline constexpr std::array<Option, 6> ApiOptions = {{
    {"url", "URL", "operator API: its address, such as https://HOST:9443"},
    {"header-file", "FILE", "operator API: request headers, such as a token; - for stdin"},
    {"ca-file", "FILE", "operator API: authorities to trust (default: those of the system)"},
    {"cert", "FILE", "operator API: certificate of this client"},
    {"cert-key", "FILE", "operator API: its key (default: in the same file)"},
    {"unix-socket", "FILE", "operator API: connect to this UNIX socket"},
}};

// With --url. Reads the files that the options name.
absl::StatusOr<operator_client::ApiAccess> readApiAccess(const Arguments& arguments,
                                                         std::chrono::milliseconds timeout);

// Without --url: fails if one of the options that go with it is there.
absl::Status refuseApiOptions(const Arguments& arguments);

}  // namespace idempotency::cli
