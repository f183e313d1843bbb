#pragma once

#include <array>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "source/cli/arguments.h"
#include "source/protocol/record.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {

// Which record a command is about. A key is never an argument.
inline constexpr std::array<Option, 7> RecordOptions = {{
    {"tenant", "TENANT", "the record's tenant"},
    {"operation", "OPERATION", "the record's operation"},
    {"key-stdin", "", "read the key from stdin"},
    {"key-file", "FILE", "read the key from a file; - for stdin"},
    {"key-hash", "HASH", "the key's hash, as the access log shows it (key_hash)"},
    {"attempt", "N", "the attempt, as the access log shows it and as the upstream received it"},
    {.name = "key",
     .value = "KEY",
     .help = "",
     .refusal = "other users of this machine can see arguments. Use --key-stdin or --key-file."},
}};

// The filter that these options make. An option that is not given matches everything.
absl::StatusOr<store::RecordFilter> readRecordFilter(const Arguments& arguments);

// The value of --attempt; none if it was not given.
absl::StatusOr<std::optional<protocol::Attempt>> readAttempt(const Arguments& arguments);

// Fails if more than one option reads stdin.
absl::Status checkStdin(const Arguments& arguments);

// The only record that matches, without its response. NotFound if there is none, and
// FailedPrecondition if there are several.
absl::StatusOr<store::ListedRecord> findOne(store::OperatorStore& store,
                                            const store::RecordFilter& filter);

}  // namespace idempotency::cli
