#include "source/cli/show_command.h"

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include <absl/status/status.h>

#include "source/cli/output_options.h"
#include "source/cli/record_options.h"
#include "source/cli/record_text.h"
#include "source/cli/store_options.h"
#include "source/operator_api/encode.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {
namespace {

constexpr uint32_t TimelineEntries = 100;

constexpr std::array<Option, 1> ShowOptions = {{
    {"response", "", "show the stored response, which may hold personal data"},
}};
constexpr auto Options = joinOptions(RecordOptions, ShowOptions, OutputOptions, StoreOptions);

// With its response.
absl::StatusOr<store::ListedRecord> find(store::OperatorStore& store,
                                         const store::RecordFilter& filter) {
  const auto listed = findOne(store, filter);
  if (!listed.ok()) {
    return listed.status();
  }
  auto record = fromStore(store.find(listed->identity));
  if (!record.ok()) {
    return record.status();
  }
  if (!record->has_value()) {
    return absl::NotFoundError("the record has just been deleted");
  }
  return **std::move(record);
}

void show(const store::ListedRecord& record, const store::AuditPage& timeline, bool with_response,
          Console& console) {
  console.out << recordDetails(record);
  if (with_response && record.record.response.has_value()) {
    console.out << "\nresponse\n" << responseText(*record.record.response);
  }
  if (with_response && record.withheld_response.has_value()) {
    console.out << "\nresponse\nThe operator filter does not show it: its show_responses does not "
                   "name the operation.\n";
  }
  if (!timeline.entries.empty()) {
    console.out << "\naudit, newest first\n" << timelineTable(timeline.entries);
  }
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const auto filter = readRecordFilter(arguments);
  if (!filter.ok()) {
    return filter.status();
  }
  const auto store = openStore(arguments);
  if (!store.ok()) {
    return store.status();
  }
  const auto record = find(**store, *filter);
  if (!record.ok()) {
    return record.status();
  }
  const store::AuditFilter about = {.tenant = record->identity.tenant,
                                    .operation = record->identity.operation,
                                    .key = record->identity.key,
                                    .attempt = std::nullopt};
  const auto timeline = fromStore((*store)->audit(about, std::nullopt, TimelineEntries));
  if (!timeline.ok()) {
    return timeline.status();
  }
  const bool with_response = arguments.has("response");
  if (arguments.has("json")) {
    const auto shown =
        with_response ? operator_api::ShowResponse::Yes : operator_api::ShowResponse::No;
    console.out << operator_api::encodeRecord(*record, *timeline, shown) << '\n';
  } else {
    show(*record, *timeline, with_response, console);
  }
  return ExitCode::Done;
}

}  // namespace

const Command ShowCommand = {
    .words = "records show",
    .summary = "show one record and what the audit says about its key",
    .description = "Shows the record that the options find. It is an error if there are several.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency::cli
