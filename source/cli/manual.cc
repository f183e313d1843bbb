#include "source/cli/manual.h"

#include <fmt/format.h>
#include <string_view>

namespace idempotency::cli {
namespace {

// Text that troff shows as it is.
std::string troff(std::string_view text) {
  std::string result;
  bool line_starts = true;
  for (const char c : text) {
    // A line that starts like this would be a request.
    if (line_starts && (c == '.' || c == '\'')) {
      result += "\\&";
    }
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
    line_starts = c == '\n';
  }
  return result;
}

// Paragraphs; lines that start with a blank keep their shape.
std::string troffParagraphs(std::string_view text) {
  std::string result;
  bool literal = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.starts_with(' ') != literal) {
      result += literal ? ".fi\n" : ".nf\n";
      literal = !literal;
    }
    result += line.empty() ? ".PP\n" : troff(line) + '\n';
  }
  return result + (literal ? ".fi\n" : "");
}

std::string term(std::string_view name, std::string_view value, std::string_view help) {
  const std::string placeholder = value.empty() ? "" : fmt::format(" \\fI{}\\fR", troff(value));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", troff(name), placeholder, troff(help));
}

std::string commandSection(const Command& command) {
  std::string text = fmt::format(".SS {}\n", troff(command.words));
  std::string operands;
  for (const Operand& operand : command.operands) {
    operands += fmt::format(" \\fI{}\\fR{}", troff(operand.name), operand.repeated ? "..." : "");
  }
  text += fmt::format("\\fB{} {}\\fR [\\fIOPTIONS\\fR]{}\n.PP\n", Program, troff(command.words),
                      operands);
  text += troffParagraphs(command.description);
  for (const Operand& operand : command.operands) {
    text += fmt::format(".TP\n\\fI{}\\fR\n{}\n", troff(operand.name), troff(operand.help));
  }
  for (const Option& option : command.options) {
    if (option.refusal.empty()) {
      text += term(fmt::format("--{}", option.name), option.value,
                   fmt::format("{}{}", option.help, option.repeated ? " (may be repeated)" : ""));
    }
  }
  return text;
}

}  // namespace

std::string manualPage(std::span<const Command> commands) {
  std::string text = fmt::format(
      ".TH IDEMPOTENCYCTL 1 \"\" \"envoy\\-idempotency\" \"User Commands\"\n"
      ".SH NAME\n{0} \\- tools for the idempotency filter for Envoy\n"
      ".SH SYNOPSIS\n\\fB{0}\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n"
      ".SH DESCRIPTION\n"
      "Looks at the records of the idempotency filter and settles them, brings the database up to\n"
      "date, and shows keys and fingerprints as the filter reads them.\n"
      ".SH COMMANDS\n",
      Program);
  for (const Command& command : commands) {
    text += commandSection(command);
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitCodeText& code : exitCodeTexts()) {
    text += term(code.number, "", code.text);
  }
  return text;
}

std::string markdownReference(std::span<const Command> commands) {
  std::string text;
  for (const Command& command : commands) {
    text += fmt::format("{}### {}\n\n```text\n{}```\n", text.empty() ? "" : "\n", command.words,
                        commandHelp(commands, command));
  }
  return text;
}

}  // namespace idempotency::cli
