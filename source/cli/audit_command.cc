#include "source/cli/audit_command.h"

#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <optional>

#include <absl/status/status.h>

#include "source/cli/output_options.h"
#include "source/cli/printable.h"
#include "source/cli/record_options.h"
#include "source/cli/record_text.h"
#include "source/cli/store_options.h"
#include "source/operator_api/cursor.h"
#include "source/operator_api/encode.h"
#include "source/operator_api/text.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {
namespace {

constexpr size_t DefaultLimit = 100;
constexpr size_t MostEntries = 10'000;

constexpr std::array<Option, 2> AuditOptions = {{
    {"limit", "N", "at most so many entries, 1 to 10000 (default: 100)"},
    {"before", "ID", "entries older than this one, or than the next_cursor of --json"},
}};
constexpr auto Options = joinOptions(RecordOptions, AuditOptions, OutputOptions, StoreOptions);

absl::StatusOr<std::optional<int64_t>> readBefore(const Arguments& arguments) {
  const auto given = arguments.value("before");
  if (!given.has_value()) {
    return std::nullopt;
  }
  auto id = operator_api::parseAuditCursor(*given);
  if (!id.has_value()) {
    id = operator_api::parseNumber(*given);
  }
  if (!id.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("--before is {}; must be the ID of an entry", printable(*given)));
  }
  return id;
}

// The audit has no hashes of keys: the record tells the key.
absl::StatusOr<store::AuditFilter> auditFilter(store::OperatorStore& store,
                                               const store::RecordFilter& filter) {
  if (!filter.key_hash.has_value()) {
    return store::AuditFilter{.tenant = filter.tenant,
                              .operation = filter.operation,
                              .key = filter.key,
                              .attempt = filter.attempt};
  }
  const auto record = findOne(store, filter);
  if (!record.ok()) {
    return record.status();
  }
  return store::AuditFilter{.tenant = record->identity.tenant,
                            .operation = record->identity.operation,
                            .key = record->identity.key,
                            .attempt = filter.attempt};
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const auto filter = readRecordFilter(arguments);
  if (!filter.ok()) {
    return filter.status();
  }
  const auto before = readBefore(arguments);
  if (!before.ok()) {
    return before.status();
  }
  const auto limit = arguments.number("limit", 1, MostEntries, DefaultLimit);
  if (!limit.ok()) {
    return limit.status();
  }
  const auto store = openStore(arguments);
  if (!store.ok()) {
    return store.status();
  }
  const auto about = auditFilter(**store, *filter);
  if (!about.ok()) {
    return about.status();
  }
  const auto page = fromStore((*store)->audit(*about, *before, static_cast<uint32_t>(*limit)));
  if (!page.ok()) {
    return page.status();
  }
  if (arguments.has("json")) {
    console.out << operator_api::encodeAudit(*page) << '\n';
  } else if (page->entries.empty()) {
    console.out << "No entry matches.\n";
  } else {
    console.out << auditTable(page->entries);
    if (page->more) {
      console.out << fmt::format("\nThere are more. For the next page: --before {}\n",
                                 page->entries.back().id);
    }
  }
  return ExitCode::Done;
}

}  // namespace

const Command AuditListCommand = {
    .words = "audit list",
    .summary = "show who changed what, and why",
    .description =
        "Lists the audit, the newest entry first: changes by operators, the reconciler and the\n"
        "background jobs. The options select the entries about a tenant, an operation, a key or "
        "an\n"
        "attempt. --key-hash works only while the record exists.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency::cli
