#include "source/cli/completion.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace idempotency::cli {
namespace {

// What a word may be completed to, with its help.
struct Choice {
  std::string word;
  std::string_view help;
};

// What stands behind an option.
enum class ValueKind : uint8_t { None, Text, File, Listed };
struct OptionChoice {
  Option option;
  ValueKind kind = ValueKind::None;
  std::vector<std::string_view> values;  // Listed.
};

// What may follow the words of a command or of a group; "" is the program itself.
struct Node {
  std::vector<Choice> words;  // Commands below, and the listed values of an operand.
  std::vector<OptionChoice> options;
  bool takes_files = false;
};
using Tree = std::map<std::string, Node, std::less<>>;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

// The values that a placeholder such as "strict|raw|either" lists.
std::vector<std::string_view> listedValues(std::string_view placeholder) {
  auto values = split(placeholder, '|');
  return values.size() > 1 ? values : std::vector<std::string_view>();
}

bool namesFile(std::string_view placeholder) {
  return placeholder == "FILE";
}

OptionChoice optionChoice(const Option& option) {
  OptionChoice choice = {.option = option, .kind = ValueKind::Text, .values = {}};
  choice.values = listedValues(option.value);
  if (option.value.empty()) {
    choice.kind = ValueKind::None;
  } else if (!choice.values.empty()) {
    choice.kind = ValueKind::Listed;
  } else if (namesFile(option.value)) {
    choice.kind = ValueKind::File;
  }
  return choice;
}

void addWord(Node& node, std::string_view word, std::string_view help) {
  const auto found = std::find_if(node.words.begin(), node.words.end(),
                                  [&](const Choice& choice) { return choice.word == word; });
  if (found == node.words.end()) {
    node.words.push_back({std::string(word), help});
  }
}

// The groups above the command get its words.
void addPath(const Command& command, Tree& tree) {
  std::string path;
  const auto words = split(command.words, ' ');
  for (size_t i = 0; i < words.size(); ++i) {
    const bool last = i + 1 == words.size();
    addWord(tree[path], words[i], last ? command.summary : std::string_view());
    path += fmt::format("{}{}", path.empty() ? "" : " ", words[i]);
  }
}

Tree makeTree(std::span<const Command> commands) {
  Tree tree;
  for (const Command& command : commands) {
    addPath(command, tree);
    Node& node = tree[std::string(command.words)];
    for (const Option& option : command.options) {
      if (option.refusal.empty()) {
        node.options.push_back(optionChoice(option));
      }
    }
    for (const Operand& operand : command.operands) {
      node.takes_files = node.takes_files || namesFile(operand.name);
      for (const std::string_view value : listedValues(operand.name)) {
        addWord(node, value, operand.help);
      }
    }
  }
  for (auto& [path, node] : tree) {
    node.options.push_back({.option = {"help", "", "show this help"}, .values = {}});
  }
  return tree;
}

// In single quotes, for bash and zsh.
std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + '\'';
}

// In single quotes, for fish.
std::string fishQuoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + '\'';
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

// Every path but the program's own, as a pattern of `case`.
std::string pathPattern(const Tree& tree) {
  std::vector<std::string> paths;
  for (const auto& [path, node] : tree) {
    if (!path.empty()) {
      paths.push_back(quoted(path));
    }
  }
  return joined(paths, " | ");
}

std::string optionPattern(std::string_view path, const Option& option) {
  return quoted(fmt::format("{} --{}", path, option.name));
}

// The patterns "COMMAND --OPTION" of all options of this kind.
std::string optionPatterns(const Tree& tree, ValueKind kind) {
  std::vector<std::string> patterns;
  for (const auto& [path, node] : tree) {
    for (const OptionChoice& choice : node.options) {
      if (choice.kind == kind) {
        patterns.push_back(optionPattern(path, choice.option));
      }
    }
  }
  return joined(patterns, " | \\\n      ");
}

// A branch for each option with listed values, which stand between the two texts.
std::string listedBranches(const Tree& tree, std::string_view before, std::string_view after) {
  std::string text;
  for (const auto& [path, node] : tree) {
    for (const OptionChoice& choice : node.options) {
      if (choice.kind == ValueKind::Listed) {
        text += fmt::format("    {})\n      {}{}{}\n      return\n      ;;\n",
                            optionPattern(path, choice.option), before,
                            fmt::join(choice.values, " "), after);
      }
    }
  }
  return text;
}

// bash and zsh: which command has been typed. `words` is an array, which starts at `first`.
std::string findCommandLoop(const Tree& tree, std::string_view words, int first,
                            std::string_view current) {
  return fmt::format(
      "  for ((i = {}; i < {}; ++i)); do\n"
      "    case \"${{command:+$command }}${{{}[i]}}\" in\n"
      "      {}) command=\"${{command:+$command }}${{{}[i]}}\" ;;\n"
      "      *) break ;;\n"
      "    esac\n"
      "  done\n",
      first, current, words, pathPattern(tree), words);
}

std::string bashScript(const Tree& tree) {
  std::string text = fmt::format(
      "# bash completion for {0}. Generated by: {0} completion bash\n"
      "_{0}() {{\n"
      "  local command='' current=\"${{COMP_WORDS[COMP_CWORD]}}\" i\n"
      "  COMPREPLY=()\n",
      Program);
  text += findCommandLoop(tree, "COMP_WORDS", 1, "COMP_CWORD");
  text += "  case \"$command ${COMP_WORDS[COMP_CWORD - 1]}\" in\n";
  text += listedBranches(tree, "mapfile -t COMPREPLY < <(compgen -W '", "' -- \"$current\")");
  text += fmt::format(
      "    {})\n      mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n      return\n      "
      ";;\n",
      optionPatterns(tree, ValueKind::File));
  text += fmt::format("    {})\n      return\n      ;;\n", optionPatterns(tree, ValueKind::Text));
  text += "  esac\n  local choices=''\n  case \"$command\" in\n";
  for (const auto& [path, node] : tree) {
    std::vector<std::string> choices;
    for (const Choice& choice : node.words) {
      choices.push_back(choice.word);
    }
    for (const OptionChoice& choice : node.options) {
      choices.push_back(fmt::format("--{}", choice.option.name));
    }
    text += fmt::format("    {}) choices='{}' ;;\n", quoted(path), joined(choices, " "));
  }
  return text + fmt::format(
                    "  esac\n"
                    "  mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$current\")\n"
                    "}}\n"
                    "complete -o filenames -F _{0} {0}\n",
                    Program);
}

// A choice as _describe reads it: a colon separates the word from its help.
std::string described(std::string_view word, std::string_view help) {
  std::string escaped;
  for (const char c : help) {
    escaped += c == ':' ? "\\:" : std::string(1, c);
  }
  return quoted(fmt::format("{}:{}", word, escaped));
}

std::string zshScript(const Tree& tree) {
  std::string text = fmt::format(
      "#compdef {0}\n"
      "# zsh completion for {0}. Generated by: {0} completion zsh\n"
      "_{0}() {{\n"
      "  local command='' i\n"
      "  local -a choices\n",
      Program);
  text += findCommandLoop(tree, "words", 2, "CURRENT");
  text += "  case \"$command ${words[CURRENT - 1]}\" in\n";
  text += listedBranches(tree, "compadd -- ", "");
  text += fmt::format("    {})\n      _files\n      return\n      ;;\n",
                      optionPatterns(tree, ValueKind::File));
  text += fmt::format("    {})\n      return\n      ;;\n", optionPatterns(tree, ValueKind::Text));
  text += "  esac\n  case \"$command\" in\n";
  for (const auto& [path, node] : tree) {
    text += fmt::format("    {})\n      choices=(\n", quoted(path));
    for (const Choice& choice : node.words) {
      text += fmt::format("        {}\n", described(choice.word, choice.help));
    }
    for (const OptionChoice& choice : node.options) {
      text += fmt::format("        {}\n",
                          described(fmt::format("--{}", choice.option.name), choice.option.help));
    }
    text += fmt::format("      ){}\n      ;;\n", node.takes_files ? "\n      _files" : "");
  }
  return text + fmt::format(
                    "  esac\n"
                    "  _describe '{0}' choices\n"
                    "}}\n"
                    "if [ \"${{funcstack[1]}}\" = _{0} ]; then\n"
                    "  _{0} \"$@\"\n"
                    "else\n"
                    "  compdef _{0} {0}\n"
                    "fi\n",
                    Program);
}

std::string fishValue(const OptionChoice& choice) {
  switch (choice.kind) {
    case ValueKind::None:
      return "";
    case ValueKind::Text:
      return " -x";
    case ValueKind::File:
      return " -r -F";
    case ValueKind::Listed:
      return fmt::format(" -x -a '{}'", fmt::join(choice.values, " "));
  }
  return "";
}

std::string fishScript(const Tree& tree) {
  std::vector<std::string> paths;
  for (const auto& [path, node] : tree) {
    if (!path.empty()) {
      paths.push_back(quoted(path));
    }
  }
  std::string text = fmt::format(
      "# fish completion for {0}. Generated by: {0} completion fish\n"
      "function __{0}_at\n"
      "  set -l found ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    set -l longer (string trim -- \"$found $word\")\n"
      "    contains -- $longer {1}; or break\n"
      "    set found $longer\n"
      "  end\n"
      "  test \"$found\" = \"$argv\"\n"
      "end\n"
      "complete -c {0} -f\n",
      Program, joined(paths, " "));
  for (const auto& [path, node] : tree) {
    const std::string start = fmt::format("complete -c {0} -n {1}", Program,
                                          fishQuoted(fmt::format("__{}_at {}", Program, path)));
    for (const Choice& choice : node.words) {
      text +=
          fmt::format("{} -a {} -d {}\n", start, fishQuoted(choice.word), fishQuoted(choice.help));
    }
    for (const OptionChoice& choice : node.options) {
      text += fmt::format("{} -l {}{} -d {}\n", start, choice.option.name, fishValue(choice),
                          fishQuoted(choice.option.help));
    }
  }
  return text;
}

}  // namespace

std::string completionScript(Shell shell, std::span<const Command> commands) {
  const Tree tree = makeTree(commands);
  switch (shell) {
    case Shell::Bash:
      return bashScript(tree);
    case Shell::Zsh:
      return zshScript(tree);
    case Shell::Fish:
      return fishScript(tree);
  }
  return "";
}

}  // namespace idempotency::cli
