#include "source/cli/list_command.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <utility>

#include <absl/status/status.h>

#include "source/cli/input_file.h"
#include "source/cli/output_options.h"
#include "source/cli/printable.h"
#include "source/cli/record_options.h"
#include "source/cli/record_text.h"
#include "source/cli/store_options.h"
#include "source/cli/time_text.h"
#include "source/operator_api/cursor.h"
#include "source/operator_api/encode.h"
#include "source/operator_api/text.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {
namespace {

constexpr size_t DefaultLimit = 100;
constexpr size_t MostRecords = 10'000;
constexpr size_t LongestCursor = 65'536;

constexpr std::array<Option, 6> ListOptions = {{
    {"state", "in_progress|completed|failed_retryable|unknown|expired",
     "records in this state (default: all)", true},
    {"min-age", "AGE", "claimed at least this long ago: 90s, 5m, 2h or 1d"},
    {"error", "CODE", "records with exactly this error"},
    {"dead-letters", "", "unknown records that the reconciler has given up"},
    {"limit", "N", "at most so many records, 1 to 10000 (default: 100)"},
    {"after", "FILE", "file that contains the cursor of the previous page; - for stdin"},
}};
constexpr auto Options = joinOptions(ListOptions, RecordOptions, OutputOptions, StoreOptions);

absl::StatusOr<store::RecordFilter> readFilter(const Arguments& arguments) {
  auto filter = readRecordFilter(arguments);
  if (!filter.ok()) {
    return filter.status();
  }
  for (const std::string_view name : arguments.values("state")) {
    const auto state = operator_api::parseState(name);
    if (!state.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("--state is {}; must be one of {}", printable(name), ListOptions[0].value));
    }
    filter->states.push_back(*state);
  }
  if (const auto age = arguments.value("min-age"); age.has_value()) {
    filter->min_age = parseDuration(*age);
    if (!filter->min_age.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("--min-age is {}; must be such as 90s, 5m, 2h or 1d", printable(*age)));
    }
  }
  filter->error = arguments.value("error");
  filter->dead_letters_only = arguments.has("dead-letters");
  return filter;
}

absl::StatusOr<std::optional<protocol::Identity>> readAfter(const Arguments& arguments) {
  const auto file = arguments.value("after");
  if (!file.has_value()) {
    return std::nullopt;
  }
  auto cursor = readInputFile(*file, LongestCursor);
  if (!cursor.ok()) {
    return cursor.status();
  }
  cursor->erase(cursor->find_last_not_of(" \r\n") + 1);
  auto identity = operator_api::parseRecordCursor(*cursor);
  if (!identity.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("--after {}: there is no cursor in it", printable(*file)));
  }
  return identity;
}

void show(const store::RecordPage& page, Console& console) {
  if (page.records.empty()) {
    console.out << "No record matches.\n";
    return;
  }
  console.out << recordTable(page.records);
  if (page.more) {
    // Not a value for the command line, because it contains the key.
    console.out << fmt::format("\nThere are more. For the next page, give this to --after:\n{}\n",
                               operator_api::recordCursor(page.records.back().identity));
  }
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const auto filter = readFilter(arguments);
  if (!filter.ok()) {
    return filter.status();
  }
  const auto after = readAfter(arguments);
  if (!after.ok()) {
    return after.status();
  }
  const auto limit = arguments.number("limit", 1, MostRecords, DefaultLimit);
  if (!limit.ok()) {
    return limit.status();
  }
  const auto store = openStore(arguments);
  if (!store.ok()) {
    return store.status();
  }
  const auto page = fromStore((*store)->list(*filter, *after, static_cast<uint32_t>(*limit)));
  if (!page.ok()) {
    return page.status();
  }
  if (arguments.has("json")) {
    console.out << operator_api::encodeRecords(*page) << '\n';
  } else {
    show(*page, console);
  }
  return ExitCode::Done;
}

}  // namespace

const Command ListCommand = {
    .words = "records list",
    .summary = "list records",
    .description =
        "Lists the records that match all options, in the order of tenant, operation and key. For\n"
        "those that need an operator: --state unknown, or --dead-letters.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency::cli
