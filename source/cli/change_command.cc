#include "source/cli/change_command.h"

#include <array>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <utility>

#include <absl/status/status.h>

#include "source/cli/change_text.h"
#include "source/cli/output_options.h"
#include "source/cli/record_options.h"
#include "source/cli/record_text.h"
#include "source/cli/resolution.h"
#include "source/cli/store_options.h"
#include "source/cli/write_options.h"
#include "source/operator_api/encode.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {
namespace {

constexpr auto ChangeOptions =
    joinOptions(RecordOptions, WriteOptions, OutputOptions, StoreOptions);
constexpr auto ResolveOptions = joinOptions(ResolutionOptions, ChangeOptions);

// One change of one record, from the command line to the answer.
class Change {
public:
  Change(store::OperatorStore& store, store::OperatorAction action, Writer writer, bool json,
         Console& console)
      : store_(store),
        action_(std::move(action)),
        writer_(std::move(writer)),
        json_(json),
        console_(console) {}

  absl::StatusOr<ExitCode> run(const store::ListedRecord& record, protocol::Attempt seen) {
    const store::ClaimRef claim = {.identity = record.identity, .attempt = seen};
    if (writer_.dry_run || writer_.confirmed) {
      return apply(claim, writer_.dry_run);
    }
    const auto preview = fromStore(store_.change(request(claim, true)));
    if (!preview.ok()) {
      return preview.status();
    }
    if (preview->outcome != store::ChangeOutcome::Done) {
      return refused(*preview);
    }
    console_.err << recordDetails(record) << '\n' << consequence(action_) << '\n';
    const auto agreed = confirm("yes", console_);
    if (!agreed.ok()) {
      return agreed.status();
    }
    if (!*agreed) {
      return absl::CancelledError("not confirmed; nothing was changed");
    }
    return apply(claim, false);
  }

private:
  store::OperatorChange request(const store::ClaimRef& seen, bool dry_run) const {
    return {.seen = seen,
            .action = action_,
            .actor = writer_.actor,
            .reason = writer_.reason,
            .dry_run = dry_run};
  }

  absl::StatusOr<ExitCode> apply(const store::ClaimRef& seen, bool dry_run) {
    const store::OperatorChange change = request(seen, dry_run);
    const auto result = fromStore(store_.change(change));
    if (!result.ok()) {
      return result.status();
    }
    if (result->outcome != store::ChangeOutcome::Done) {
      return refused(*result);
    }
    if (json_) {
      console_.out << operator_api::encodeChange(change, *result) << '\n';
    } else {
      console_.out << (dry_run ? "Dry run: nothing was changed. Without --dry-run:\n" : "Done.\n")
                   << consequence(action_) << '\n';
    }
    return ExitCode::Done;
  }

  absl::Status refused(const store::ChangeResult& result) const {
    return absl::FailedPreconditionError(
        fmt::format("nothing was changed: {}", refusal(action_, result)));
  }

  store::OperatorStore& store_;
  const store::OperatorAction action_;
  const Writer writer_;
  const bool json_;
  Console& console_;
};

// What finds the record. The attempt finds it only where nothing else does: otherwise it is what
// the operator saw, and a record with another attempt is stale.
store::RecordFilter withoutSeenAttempt(store::RecordFilter filter) {
  if (filter.key.has_value() || filter.key_hash.has_value()) {
    filter.attempt.reset();
  }
  return filter;
}

absl::Status checkFilter(const store::RecordFilter& filter, const Writer& writer) {
  if (!filter.key.has_value() && !filter.key_hash.has_value() && !filter.attempt.has_value()) {
    return absl::InvalidArgumentError(
        "say which record: --key-stdin, --key-file, --key-hash or --attempt");
  }
  if (writer.confirmed && !filter.attempt.has_value()) {
    return absl::InvalidArgumentError(
        "--yes requires --attempt, the attempt that you saw: otherwise it is not certain which "
        "request you settle");
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> change(const Arguments& arguments,
                                absl::StatusOr<store::OperatorAction> action, Console& console) {
  if (!action.ok()) {
    return action.status();
  }
  auto writer = readWriter(arguments);
  if (!writer.ok()) {
    return writer.status();
  }
  auto filter = readRecordFilter(arguments);
  if (!filter.ok()) {
    return filter.status();
  }
  if (const absl::Status status = checkFilter(*filter, *writer); !status.ok()) {
    return status;
  }
  const auto store = openStore(arguments);
  if (!store.ok()) {
    return store.status();
  }
  const auto record = findOne(**store, withoutSeenAttempt(*filter));
  if (!record.ok()) {
    return record.status();
  }
  return Change(**store, *std::move(action), *std::move(writer), arguments.has("json"), console)
      .run(*record, filter->attempt.value_or(record->record.attempt));
}

absl::StatusOr<ExitCode> resolve(const Arguments& arguments, Console& console) {
  if (const absl::Status status = checkStdin(arguments); !status.ok()) {
    return status;
  }
  return change(arguments, readResolution(arguments), console);
}
absl::StatusOr<ExitCode> askAgain(const Arguments& arguments, Console& console) {
  return change(arguments, store::AskAgain{.after = {}, .start_over = true}, console);
}
absl::StatusOr<ExitCode> release(const Arguments& arguments, Console& console) {
  return change(arguments, store::Free{}, console);
}
absl::StatusOr<ExitCode> bust(const Arguments& arguments, Console& console) {
  return change(arguments, store::Bust{}, console);
}

}  // namespace

const Command ResolveCommand = {
    .words = "records resolve",
    .summary = "say what became of a request whose outcome is unknown",
    .description =
        "Settles a record: with --status it is completed, and every retry gets the response that\n"
        "you describe; with --not-run the next request with the key runs. Only for records whose\n"
        "outcome is unknown, or whose lease has expired.\n\n"
        "The change is made only if the record still has the attempt that you saw, which is that\n"
        "of --attempt, or the one that this command shows before it asks.",
    .options = ResolveOptions,
    .operands = {},
    .run = resolve,
};

const Command AskAgainCommand = {
    .words = "records ask-again",
    .summary = "ask the upstream now for an unknown outcome",
    .description =
        "Makes a record due for the reconciler, which asks the upstream what became of the "
        "request.\n"
        "Also brings back a dead letter. Only for records whose outcome is unknown.",
    .options = ChangeOptions,
    .operands = {},
    .run = askAgain,
};

const Command ReleaseCommand = {
    .words = "records release",
    .summary = "free a key, also for a different request",
    .description =
        "Deletes a record that has no result. Unlike records resolve --not-run, this also lets a\n"
        "different request use the key. Only for records whose outcome is unknown, whose lease "
        "has\n"
        "expired, or whose request has failed.",
    .options = ChangeOptions,
    .operands = {},
    .run = release,
};

const Command BustCommand = {
    .words = "records bust",
    .summary = "delete a stored result, so that the request can run again",
    .description =
        "Deletes a record that is completed, has failed or has expired, together with its "
        "response.\n"
        "A record whose outcome is unknown is never deleted like this: see records resolve.",
    .options = ChangeOptions,
    .operands = {},
    .run = bust,
};

}  // namespace idempotency::cli
