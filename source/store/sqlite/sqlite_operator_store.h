#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "source/store/operator_store.h"
#include "source/store/sqlite/clock_guard.h"

namespace idempotency::sqlite {

// Opens the file of an SqliteStore for an operator, whether or not an Envoy has it open: with a
// connection of its own, which waits up to `timeout` for other processes' locks, and as long for
// its own work. It creates and migrates nothing: an error if there is no such file, or if its
// tables are not those of this build.
//
// A change is durable when it returns. Time is judged as by the store (see ClockGuard).
[[nodiscard]] absl::StatusOr<std::unique_ptr<store::OperatorStore>> openOperatorStore(
    const std::string& path, std::chrono::milliseconds timeout,
    const Uptime& uptime = machineUptime);

}  // namespace idempotency::sqlite
