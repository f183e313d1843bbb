#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace idempotency::cli {

// An option of a command: `--name VALUE`, `--name=VALUE`, or a switch `--name`.
struct Option {
  std::string_view name;   // Without the dashes.
  std::string_view value;  // Represents the value in the help. Empty: a switch.
  std::string_view help;
  bool repeated = false;  // May be given more than once.
  // Not empty: the option is not accepted, and this says why. The help does not show it.
  std::string_view refusal{};
};

// The options of a command that shares some of them with other commands.
template <size_t... Sizes>
constexpr auto joinOptions(const std::array<Option, Sizes>&... parts) {
  std::array<Option, (Sizes + ...)> all{};
  auto end = all.begin();
  ((end = std::copy(parts.begin(), parts.end(), end)), ...);
  return all;
}

// What a command accepts besides options.
struct Operand {
  std::string_view name;  // Represents it in the help and in errors.
  std::string_view help;
  bool repeated = false;  // One or more. The last operand only.
};

// An argument vector, checked against the tables of a command. Views into the parsed vector.
class Arguments {
public:
  // Fails, with a message for the user, if an option is not in the table, lacks its value, has one
  // too many or is given twice, and if there are too few or too many operands. After `--`
  // everything is an operand.
  static absl::StatusOr<Arguments> parse(std::span<const std::string_view> words,
                                         std::span<const Option> options,
                                         std::span<const Operand> operands);

  bool has(std::string_view name) const;
  // The value of an option that may be given once; none if it was not given.
  std::optional<std::string_view> value(std::string_view name) const;
  // The values of an option, in the order given.
  std::vector<std::string_view> values(std::string_view name) const;
  // As value(), or an error that names the option.
  absl::StatusOr<std::string_view> required(std::string_view name) const;
  // The value as a decimal number from `low` to `high`, `fallback` if it was not given.
  absl::StatusOr<size_t> number(std::string_view name, size_t low, size_t high,
                                size_t fallback) const;

  const std::vector<std::string_view>& operands() const { return operands_; }

private:
  struct Given {
    std::string_view name;
    std::string_view value;
  };

  absl::StatusOr<size_t> takeOption(std::span<const std::string_view> words,
                                    std::span<const Option> options);
  absl::Status checkOperands(std::span<const Operand> operands) const;

  std::vector<Given> options_;
  std::vector<std::string_view> operands_;
};

// Whether the words ask for help, which takes precedence over errors in the other words.
bool asksForHelp(std::span<const std::string_view> words);

}  // namespace idempotency::cli
