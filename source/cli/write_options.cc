#include "source/cli/write_options.h"

#include <fmt/format.h>
#include <optional>

#include <absl/status/status.h>

#include "source/cli/actor.h"
#include "source/cli/printable.h"

namespace idempotency::cli {
namespace {

constexpr size_t LongestText = 1000;

// What is stored in the audit: neither empty nor endless.
absl::StatusOr<std::string> checkedText(std::string_view name, std::string_view text) {
  if (text.find_first_not_of(' ') == std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format("--{} is empty", name));
  }
  if (text.size() > LongestText) {
    return absl::InvalidArgumentError(
        fmt::format("--{} has more than {} bytes", name, LongestText));
  }
  if (!isPrintable(text)) {
    return absl::InvalidArgumentError(
        fmt::format("--{} contains characters that cannot be shown", name));
  }
  return std::string(text);
}

}  // namespace

absl::StatusOr<Writer> readWriter(const Arguments& arguments) {
  const auto given = arguments.required("reason");
  if (!given.ok()) {
    return given.status();
  }
  auto reason = checkedText("reason", *given);
  if (!reason.ok()) {
    return reason.status();
  }
  const auto name = arguments.value("actor");
  if (name.has_value() && arguments.has("url")) {
    return absl::InvalidArgumentError(
        "--actor cannot be combined with --url: the operator API knows who you are from your token "
        "or your certificate");
  }
  auto actor = name.has_value() ? checkedText("actor", *name) : currentActor();
  if (!actor.ok()) {
    return actor.status();
  }
  return Writer{.actor = *std::move(actor),
                .reason = *std::move(reason),
                .dry_run = arguments.has("dry-run"),
                .confirmed = arguments.has("yes")};
}

absl::StatusOr<bool> confirm(std::string_view word, Console& console) {
  const std::string question = fmt::format("Type {} to continue: ", printable(word));
  const auto answer = console.ask ? console.ask(question) : std::nullopt;
  if (!answer.has_value()) {
    return absl::InvalidArgumentError(
        "there is no terminal to ask for confirmation: use --yes, or --dry-run to look only");
  }
  return *answer == word;
}

}  // namespace idempotency::cli
