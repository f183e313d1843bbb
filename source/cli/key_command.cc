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

namespace idempotency::cli {
namespace {

constexpr std::array<Option, 5> Options = {{
    {"syntax", "strict|raw|either", "format of the header (default: strict)"},
    {"min-length", "N", "minimum key length, 1 to 255 (default: 16)"},
    {"max-length", "N", "maximum key length, 1 to 255 (default: 255)"},
    {"uuid", "", "the key must be a UUID"},
    {"quoted", "", "print the key as an RFC 8941 String, in double quotes"},
}};

constexpr std::array<Operand, 1> Operands = {{
    {"VALUE", "value of the header; each further VALUE is another header line", true},
}};

std::optional<key::KeySyntax> syntaxNamed(std::string_view name) {
  if (name == "strict") {
    return key::KeySyntax::Strict;
  }
  if (name == "raw") {
    return key::KeySyntax::Raw;
  }
  if (name == "either") {
    return key::KeySyntax::Either;
  }
  return std::nullopt;
}

absl::StatusOr<key::KeyRules> readRules(const Arguments& arguments) {
  key::KeyRules rules;
  const std::string_view syntax = arguments.value("syntax").value_or("strict");
  const auto named = syntaxNamed(syntax);
  if (!named) {
    return absl::InvalidArgumentError(
        fmt::format("--syntax is {}; must be strict, raw or either", printable(syntax)));
  }
  rules.syntax = *named;
  const auto min_length = arguments.number("min-length", 1, key::KeyLengthLimit, rules.min_length);
  if (!min_length.ok()) {
    return min_length.status();
  }
  const auto max_length = arguments.number("max-length", 1, key::KeyLengthLimit, rules.max_length);
  if (!max_length.ok()) {
    return max_length.status();
  }
  if (*min_length > *max_length) {
    return absl::InvalidArgumentError(
        fmt::format("--min-length {} is greater than --max-length {}", *min_length, *max_length));
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
  const key::KeyResult result = key::parseKey(arguments.operands(), *rules);
  const key::Key* const key = std::get_if<key::Key>(&result);
  if (key == nullptr) {
    return absl::FailedPreconditionError(key::describe(std::get<key::KeyRefusal>(result), *rules));
  }
  // A key is printable ASCII, so it can always be written in quotes.
  const std::string_view text = key->view();
  console.out << (arguments.has("quoted") ? key::serializeString(text).value_or("")
                                          : std::string(text))
              << '\n';
  return ExitCode::Done;
}

}  // namespace

const Command KeyParseCommand = {
    .words = "key parse",
    .summary = "show the key that the filter reads from a header",
    .description =
        "Reads the value of an Idempotency-Key header as the filter would, and prints the key. If "
        "the\n"
        "value is not valid, the reason is printed to stderr. Write -- before the value, because a "
        "key\n"
        "may start with a dash.",
    .options = Options,
    .operands = Operands,
    .run = run,
};

}  // namespace idempotency::cli
