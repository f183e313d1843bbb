#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>

#include "source/cli/command.h"
#include "source/protocol/record.h"
#include "source/store/open/open_operator_store.h"
#include "source/store/operator_store.h"

namespace idempotency::test {

// What the store of a test holds, and what was done to it. In a program that links this,
// openOperatorStore() opens it, whatever the access says.
struct OperatorWorld {
  std::map<protocol::Identity, store::Record> records;
  std::vector<store::AuditEntry> audit;  // Newest first.
  store::Summary summary;
  absl::Status open_failure;  // Of the next openOperatorStore().
  absl::Status failure;       // Of every call of an open store.

  std::vector<store::OperatorAccess> opened;
  std::vector<store::RecordFilter> filters;  // Of each list().
  std::vector<store::OperatorChange> changes;
  std::vector<store::Purge> purges;
};

// The only one; empty again after resetOperatorWorld().
OperatorWorld& operatorWorld();
void resetOperatorWorld();

// A record in this state; its lease is alive.
store::Record recordIn(protocol::RecordState state, protocol::Attempt attempt);

struct Ran {
  int code = 0;
  std::string out;
  std::string err;
  std::string question;  // The last one asked at the terminal.
};
// Runs the program with these commands. `typed` is what the person at the terminal answers; none:
// no one is there.
Ran runProgram(std::span<const cli::Command> commands, const std::vector<std::string>& words,
               const std::optional<std::string>& typed = std::nullopt);

// Writes a file for this test; its path.
std::string temporaryFile(std::string_view name, std::string_view content);

}  // namespace idempotency::test
