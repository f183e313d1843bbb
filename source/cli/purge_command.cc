#include "source/cli/purge_command.h"

#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string>

#include <absl/status/status.h>

#include "source/cli/output_options.h"
#include "source/cli/printable.h"
#include "source/cli/store_options.h"
#include "source/cli/write_options.h"
#include "source/operator_api/encode.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {
namespace {

// Of each transaction: few enough to delay no request.
constexpr uint32_t RecordsPerStep = 1000;

constexpr std::array<Option, 1> TenantOption = {{
    {"tenant", "TENANT", "the tenant. Required; an empty one is the tenant without a name"},
}};
constexpr auto Options = joinOptions(TenantOption, WriteOptions, OutputOptions, StoreOptions);

std::string counted(const store::PurgeResult& result) {
  return fmt::format("{}{} records with their responses, {} of them with an unknown outcome",
                     result.more ? "at least " : "", result.records, result.unsettled);
}

std::string consequence(const store::Purge& purge, const store::PurgeResult& result) {
  return fmt::format(
      "Tenant {}: deletes {}. The next request with any of these keys runs again. In {} audit "
      "entries, tenant and key are replaced by hashes. Left alone: {} records whose requests are "
      "running.",
      printable(purge.tenant), counted(result), result.audit_entries, result.running);
}

// Until nothing is left to delete. The running ones are those of the last step.
absl::StatusOr<store::PurgeResult> purgeAll(store::OperatorStore& store,
                                            const store::Purge& purge) {
  store::PurgeResult total;
  bool progress = true;
  do {
    const auto step = fromStore(store.purge(purge, RecordsPerStep));
    if (!step.ok()) {
      return total.records == 0 ? step.status()
                                : absl::UnavailableError(fmt::format(
                                      "{} (after {} records had been deleted)",
                                      std::string(step.status().message()), total.records));
    }
    total.records += step->records;
    total.unsettled += step->unsettled;
    total.audit_entries += step->audit_entries;
    total.running = step->running;
    total.more = step->more;
    progress = step->records > 0 || step->audit_entries > 0;
  } while (total.more && progress);
  return total;
}

absl::StatusOr<ExitCode> purgeTenant(store::OperatorStore& store, store::Purge purge,
                                     const Writer& writer, bool json, Console& console) {
  purge.dry_run = writer.dry_run || !writer.confirmed;
  if (purge.dry_run) {
    const auto preview = fromStore(store.purge(purge, RecordsPerStep));
    if (!preview.ok()) {
      return preview.status();
    }
    if (writer.dry_run) {
      console.out << (json ? operator_api::encodePurge(purge, *preview)
                           : "Dry run: nothing was changed. Without --dry-run:\n" +
                                 consequence(purge, *preview))
                  << '\n';
      return ExitCode::Done;
    }
    console.err << consequence(purge, *preview) << '\n';
    const auto agreed = confirm(purge.tenant.empty() ? "yes" : purge.tenant, console);
    if (!agreed.ok()) {
      return agreed.status();
    }
    if (!*agreed) {
      return absl::CancelledError("not confirmed; nothing was changed");
    }
    purge.dry_run = false;
  }
  const auto result = purgeAll(store, purge);
  if (!result.ok()) {
    return result.status();
  }
  console.out << (json ? operator_api::encodePurge(purge, *result)
                       : fmt::format("Done. Deleted {}. Audit entries changed: {}. Left, because "
                                     "their requests are running: {}.",
                                     counted(*result), result->audit_entries, result->running))
              << '\n';
  return ExitCode::Done;
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const auto tenant = arguments.required("tenant");
  if (!tenant.ok()) {
    return tenant.status();
  }
  const auto writer = readWriter(arguments);
  if (!writer.ok()) {
    return writer.status();
  }
  const auto store = openStore(arguments);
  if (!store.ok()) {
    return store.status();
  }
  const store::Purge purge = {
      .tenant = std::string(*tenant), .actor = writer->actor, .reason = writer->reason};
  return purgeTenant(**store, purge, *writer, arguments.has("json"), console);
}

}  // namespace

const Command PurgeCommand = {
    .words = "tenants purge",
    .summary = "delete everything that the store has of a tenant",
    .description =
        "Deletes the tenant's records and responses, whatever their state, and replaces its name "
        "and\n"
        "keys in the audit by hashes. Records whose requests are running stay: repeat the command\n"
        "later. To confirm, type the tenant's name.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency::cli
