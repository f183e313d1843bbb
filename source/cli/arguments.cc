#include "source/cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include <absl/status/status.h>

#include "source/cli/printable.h"

namespace idempotency::cli {
namespace {

absl::Status usageError(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

bool isOption(std::string_view word) {
  return word.size() > 1 && word.front() == '-';
}

const Option* findOption(std::span<const Option> options, std::string_view name) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const Option& option) { return option.name == name; });
  return found == options.end() ? nullptr : &*found;
}

}  // namespace

bool asksForHelp(std::span<const std::string_view> words) {
  for (const std::string_view word : words) {
    if (word == "--") {
      return false;
    }
    if (word == "--help" || word == "-h") {
      return true;
    }
  }
  return false;
}

absl::StatusOr<Arguments> Arguments::parse(std::span<const std::string_view> words,
                                           std::span<const Option> options,
                                           std::span<const Operand> operands) {
  Arguments arguments;
  while (!words.empty()) {
    if (words.front() == "--") {
      arguments.operands_.insert(arguments.operands_.end(), words.begin() + 1, words.end());
      break;
    }
    size_t taken = 1;
    if (isOption(words.front())) {
      const auto result = arguments.takeOption(words, options);
      if (!result.ok()) {
        return result.status();
      }
      taken = *result;
    } else {
      arguments.operands_.push_back(words.front());
    }
    words = words.subspan(taken);
  }
  if (const absl::Status status = arguments.checkOperands(operands); !status.ok()) {
    return status;
  }
  return arguments;
}

// Takes the first option; returns how many words it used.
absl::StatusOr<size_t> Arguments::takeOption(std::span<const std::string_view> words,
                                             std::span<const Option> options) {
  const std::string_view word = words.front();
  const size_t equals = word.find('=');
  const std::string_view shown = word.substr(0, equals);
  const Option* const option =
      shown.starts_with("--") ? findOption(options, shown.substr(2)) : nullptr;
  if (option == nullptr) {
    return usageError(fmt::format("unknown option {}", printable(shown)));
  }
  if (!option->refusal.empty()) {
    return usageError(fmt::format("{} is not accepted: {}", shown, option->refusal));
  }
  if (!option->repeated && has(option->name)) {
    return usageError(fmt::format("{} is given twice", shown));
  }
  const bool joined = equals != std::string_view::npos;
  if (option->value.empty()) {
    if (joined) {
      return usageError(fmt::format("{} takes no value", shown));
    }
    options_.push_back({option->name, {}});
    return 1;
  }
  if (joined) {
    options_.push_back({option->name, word.substr(equals + 1)});
    return 1;
  }
  if (words.size() < 2) {
    return usageError(fmt::format("{} requires a value: {}", shown, option->value));
  }
  options_.push_back({option->name, words[1]});
  return 2;
}

absl::Status Arguments::checkOperands(std::span<const Operand> operands) const {
  if (operands_.size() < operands.size()) {
    return usageError(fmt::format("{} is missing", operands[operands_.size()].name));
  }
  const bool unlimited = !operands.empty() && operands.back().repeated;
  if (operands_.size() > operands.size() && !unlimited) {
    return usageError(fmt::format("too many arguments: {}", printable(operands_[operands.size()])));
  }
  return absl::OkStatus();
}

bool Arguments::has(std::string_view name) const {
  return std::any_of(options_.begin(), options_.end(),
                     [&](const Given& given) { return given.name == name; });
}

std::optional<std::string_view> Arguments::value(std::string_view name) const {
  for (const Given& given : options_) {
    if (given.name == name) {
      return given.value;
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> Arguments::values(std::string_view name) const {
  std::vector<std::string_view> result;
  for (const Given& given : options_) {
    if (given.name == name) {
      result.push_back(given.value);
    }
  }
  return result;
}

absl::StatusOr<std::string_view> Arguments::required(std::string_view name) const {
  const auto given = value(name);
  if (!given) {
    return usageError(fmt::format("--{} is missing", name));
  }
  return *given;
}

absl::StatusOr<size_t> Arguments::number(std::string_view name, size_t low, size_t high,
                                         size_t fallback) const {
  const auto given = value(name);
  if (!given) {
    return fallback;
  }
  size_t result = 0;
  const char* const last = given->data() + given->size();
  const auto [end, error] = std::from_chars(given->data(), last, result);
  if (error != std::errc() || end != last || result < low || result > high) {
    return usageError(fmt::format("--{} is {}; must be a number from {} to {}", name,
                                  printable(*given), low, high));
  }
  return result;
}

}  // namespace idempotency::cli
