#include "source/cli/key_command.h"

#include <array>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <variant>

#include <absl/status/status.h>

#include "source/cli/printable.h"
#include "source/key/key.h"
#include "source/key/structured_field.h"

namespace idempotency {
namespace {

constexpr std::array<Option, 5> Options = {{
    {"syntax", "strict|raw|either", "what the header may look like; strict by default"},
    {"min-length", "N", "shortest key, 1 to 255; 16 by default"},
    {"max-length", "N", "longest key, 1 to 255; 255 by default"},
    {"uuid", "", "the key must be a UUID"},
    {"quoted", "", "print the key as an RFC 8941 String, in quotes"},
}};

constexpr std::array<Operand, 1> Operands = {{
    {"VALUE", "the header's value; each further VALUE is a further header line", true},
}};

std::optional<KeySyntax> syntaxNamed(std::string_view name) {
  if (name == "strict") {
    return KeySyntax::Strict;
  }
  if (name == "raw") {
    return KeySyntax::Raw;
  }
  if (name == "either") {
    return KeySyntax::Either;
  }
  return std::nullopt;
}

absl::StatusOr<KeyRules> readRules(const Arguments& arguments) {
  KeyRules rules;
  const std::string_view syntax = arguments.value("syntax").value_or("strict");
  const auto named = syntaxNamed(syntax);
  if (!named) {
    return absl::InvalidArgumentError(
        fmt::format("--syntax is {}, must be strict, raw or either", printable(syntax)));
  }
  rules.syntax = *named;
  const auto min_length = arguments.number("min-length", 1, KeyLengthLimit, rules.min_length);
  if (!min_length.ok()) {
    return min_length.status();
  }
  const auto max_length = arguments.number("max-length", 1, KeyLengthLimit, rules.max_length);
  if (!max_length.ok()) {
    return max_length.status();
  }
  if (*min_length > *max_length) {
    return absl::InvalidArgumentError(
        fmt::format("--min-length {} is more than --max-length {}", *min_length, *max_length));
  }
  rules.min_length = *min_length;
  rules.max_length = *max_length;
  rules.uuid_only = arguments.has("uuid");
  return rules;
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const auto rules = readRules(arguments);
  if (!rules.ok()) {
    return rules.status();
  }
  const KeyResult result = parseKey(arguments.operands(), *rules);
  const Key* const key = std::get_if<Key>(&result);
  if (key == nullptr) {
    return absl::FailedPreconditionError(std::string(describe(std::get<KeyProblem>(result))));
  }
  // A key is printable ASCII, so it can always be written in quotes.
  const std::string_view text = key->view();
  console.out << (arguments.has("quoted") ? serializeString(text).value_or("") : std::string(text))
              << '\n';
  return ExitCode::Done;
}

}  // namespace

const Command KeyParseCommand = {
    .words = "key parse",
    .summary = "show the key that the filter reads from a header",
    .description =
        "Reads a value of the Idempotency-Key header as the filter would, and prints the key. A "
        "value\n"
        "that gives no key is refused, with the reason on stderr. Write -- before the value, since "
        "a\n"
        "key may start with a dash.",
    .options = Options,
    .operands = Operands,
    .run = run,
};

}  // namespace idempotency
