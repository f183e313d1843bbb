#include "source/cli/summary_command.h"

#include "source/cli/output_options.h"
#include "source/cli/record_text.h"
#include "source/cli/store_options.h"
#include "source/operator_api/encode.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {
namespace {

constexpr auto Options = joinOptions(OutputOptions, StoreOptions);

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const auto store = openStore(arguments);
  if (!store.ok()) {
    return store.status();
  }
  const auto summary = fromStore((*store)->summary());
  if (!summary.ok()) {
    return summary.status();
  }
  if (arguments.has("json")) {
    console.out << operator_api::encodeSummary(*summary, {.read_only = summary->read_only}) << '\n';
  } else {
    console.out << summaryText(*summary);
  }
  return ExitCode::Done;
}

}  // namespace

const Command SummaryCommand = {
    .words = "summary",
    .summary = "show whether anything is stuck, since when, and who is affected",
    .description =
        "Shows the unknown outcomes by operation and tenant, the number of records in each state,\n"
        "the Envoy that runs the background jobs, and the version of the schema.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency::cli
