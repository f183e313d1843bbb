#pragma once

#include <array>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/cli/arguments.h"
#include "source/cli/command.h"

namespace idempotency::cli {

// What every command that changes the store takes.
inline constexpr std::array<Option, 4> WriteOptions = {{
    {"reason", "TEXT", "why; stored in the audit. Required"},
    {"actor", "NAME", "who; stored in the audit (default: user@host). Not with --url"},
    {"dry-run", "", "change nothing, and show what would happen"},
    {"yes", "", "do not ask for confirmation"},
}};

struct Writer {
  std::string actor;
  std::string reason;
  bool dry_run = false;
  bool confirmed = false;  // --yes
};
absl::StatusOr<Writer> readWriter(const Arguments& arguments);

// Asks, and says whether the answer was `word`. InvalidArgument if no one can answer.
absl::StatusOr<bool> confirm(std::string_view word, Console& console);

}  // namespace idempotency::cli
