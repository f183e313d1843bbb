#include "source/cli/command.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "bazel/version.h"
#include "source/cli/printable.h"

namespace idempotency::cli {
namespace {

constexpr std::array<ExitCodeText, 4> ExitCodeTexts = {{
    {"0", "done"},
    {"1",
     "the answer is no (not a valid key, different requests, a refused change), or the command "
     "failed"},
    {"2", "usage error: invalid arguments, or a file that cannot be used"},
    {"3", "the store cannot be reached or used"},
}};

using Rows = std::vector<std::pair<std::string, std::string>>;

// Two columns, the first as wide as its widest text.
std::string table(const Rows& rows) {
  size_t width = 0;
  for (const auto& row : rows) {
    width = std::max(width, row.first.size());
  }
  std::string text;
  for (const auto& [left, right] : rows) {
    text += fmt::format("  {:{}}  {}\n", left, width, right);
  }
  return text;
}

std::string exitCodeHelp() {
  Rows rows;
  for (const ExitCodeText& code : ExitCodeTexts) {
    rows.emplace_back(code.number, code.text);
  }
  return "\nexit codes:\n" + table(rows);
}

std::vector<std::string_view> split(std::string_view words) {
  std::vector<std::string_view> result;
  while (true) {
    const size_t space = words.find(' ');
    result.push_back(words.substr(0, space));
    if (space == std::string_view::npos) {
      return result;
    }
    words.remove_prefix(space + 1);
  }
}

bool startsWith(std::span<const std::string_view> words,
                const std::vector<std::string_view>& start) {
  return words.size() >= start.size() && std::equal(start.begin(), start.end(), words.begin());
}

const Command* findCommand(std::span<const Command> commands,
                           std::span<const std::string_view> words) {
  const Command* found = nullptr;
  for (const Command& command : commands) {
    if (startsWith(words, split(command.words)) &&
        (found == nullptr || command.words.size() > found->words.size())) {
      found = &command;
    }
  }
  return found;
}

// The list of commands, or of those that start with the word `group`.
std::string commandList(std::span<const Command> commands, std::string_view group) {
  Rows rows;
  for (const Command& command : commands) {
    if (group.empty() || split(command.words).front() == group) {
      rows.emplace_back(command.words, command.summary);
    }
  }
  return rows.empty() ? "" : "\ncommands:\n" + table(rows);
}

std::string generalHelp(std::span<const Command> commands) {
  return fmt::format(
      "usage: {0} COMMAND [OPTIONS] [ARGUMENTS]\n\n"
      "Tools for the idempotency filter for Envoy: records, keys, fingerprints and the PostgreSQL "
      "schema.\n{1}\n"
      "Run '{0} COMMAND --help' for more, and '{0} --version' for the version.\n{2}",
      Program, commandList(commands, ""), exitCodeHelp());
}

std::string groupHelp(std::span<const Command> commands, std::string_view group) {
  return fmt::format("usage: {0} {1} COMMAND [OPTIONS] [ARGUMENTS]\n{2}", Program, group,
                     commandList(commands, group));
}

bool isGroup(std::span<const Command> commands, std::string_view word) {
  return std::any_of(commands.begin(), commands.end(),
                     [&](const Command& command) { return split(command.words).front() == word; });
}

ExitCode complain(std::string_view message, std::string_view words, ExitCode code,
                  Console& console) {
  console.err << fmt::format("{}: {}\n", Program, message);
  if (code == ExitCode::Usage) {
    console.err << fmt::format("Try '{}{}{} --help'.\n", Program, words.empty() ? "" : " ", words);
  }
  return code;
}

ExitCode exitCode(const absl::Status& error) {
  if (absl::IsInvalidArgument(error)) {
    return ExitCode::Usage;
  }
  return absl::IsUnavailable(error) ? ExitCode::Unreachable : ExitCode::Refused;
}

ExitCode runCommand(const Command& command, std::span<const std::string_view> words,
                    Console& console) {
  const auto arguments = Arguments::parse(words, command.options, command.operands);
  const auto result = arguments.ok() ? command.run(*arguments, console)
                                     : absl::StatusOr<ExitCode>(arguments.status());
  if (result.ok()) {
    return *result;
  }
  return complain(std::string(result.status().message()), command.words, exitCode(result.status()),
                  console);
}

// The words select no command: a group of commands, or nothing at all.
ExitCode runWithoutCommand(std::span<const Command> commands,
                           std::span<const std::string_view> words, Console& console) {
  if (words.empty()) {
    console.err << generalHelp(commands);
    return ExitCode::Usage;
  }
  const std::string_view first = words.front();
  if (isGroup(commands, first)) {
    if (asksForHelp(words.subspan(1))) {
      console.out << groupHelp(commands, first);
      return ExitCode::Done;
    }
    const bool alone = words.size() == 1;
    return complain(alone ? fmt::format("{} requires a command", first)
                          : fmt::format("{} has no command {}", first, printable(words[1])),
                    first, ExitCode::Usage, console);
  }
  if (first == "--version" && words.size() == 1) {
    console.out << fmt::format("{} {}\n", Program, Version);
    return ExitCode::Done;
  }
  if (asksForHelp(words) || first == "help") {
    console.out << generalHelp(commands);
    return ExitCode::Done;
  }
  return complain(fmt::format("unknown command {}", printable(first)), "", ExitCode::Usage,
                  console);
}

}  // namespace

std::span<const ExitCodeText> exitCodeTexts() {
  return ExitCodeTexts;
}

std::string commandHelp(std::span<const Command> commands, const Command& command) {
  std::string usage = fmt::format("usage: {} {} [OPTIONS]", Program, command.words);
  Rows operands;
  if (!command.operands.empty()) {
    usage += " [--]";
  }
  for (const Operand& operand : command.operands) {
    usage += fmt::format(" {}{}", operand.name, operand.repeated ? "..." : "");
    operands.emplace_back(operand.name, operand.help);
  }
  Rows options;
  for (const Option& option : command.options) {
    if (!option.refusal.empty()) {
      continue;
    }
    std::string left = fmt::format("--{}", option.name);
    if (!option.value.empty()) {
      left += fmt::format(" {}", option.value);
    }
    options.emplace_back(
        left, fmt::format("{}{}", option.help, option.repeated ? " (may be repeated)" : ""));
  }
  options.emplace_back("--help", "show this help");
  std::string text = fmt::format("{}\n\n{}\n", usage, command.description);
  if (!operands.empty()) {
    text += "\narguments:\n" + table(operands);
  }
  text += "\noptions:\n" + table(options);
  std::vector<Command> below;
  for (const Command& other : commands) {
    if (other.words.starts_with(fmt::format("{} ", command.words))) {
      below.push_back(other);
    }
  }
  return text + commandList(below, "");
}

ExitCode runCommandLine(std::span<const Command> commands, std::span<const std::string_view> words,
                        Console& console) {
  console.commands = commands;
  const Command* const command = findCommand(commands, words);
  if (command == nullptr) {
    return runWithoutCommand(commands, words, console);
  }
  const auto rest = words.subspan(split(command->words).size());
  if (asksForHelp(rest)) {
    console.out << commandHelp(commands, *command) << exitCodeHelp();
    return ExitCode::Done;
  }
  return runCommand(*command, rest, console);
}

}  // namespace idempotency::cli
