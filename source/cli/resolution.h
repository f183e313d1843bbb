#pragma once

#include <array>

#include <absl/status/statusor.h>

#include "source/cli/arguments.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {

// How `records resolve` settles a record.
inline constexpr std::array<Option, 4> ResolutionOptions = {{
    {"not-run", "", "it did not run and never will"},
    {"status", "N", "it ran: retries get this status, 200 to 599"},
    {"header", "'NAME: VALUE'", "a header of the response that retries get", true},
    {"body-file", "FILE", "the body of that response; - for stdin (default: empty)"},
}};

// Completed with the response that the options describe, or NotRun.
absl::StatusOr<store::OperatorAction> readResolution(const Arguments& arguments);

}  // namespace idempotency::cli
