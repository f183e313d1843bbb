#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/protocol/record.h"

namespace idempotency::protocol {

// Text for a question about an attempt, with placeholders for what it is about: {tenant},
// {operation}, {key} and {attempt}. Parsed when the config is loaded.
class QuestionTemplate {
public:
  QuestionTemplate() = default;
  // None: a brace that belongs to no placeholder.
  static std::optional<QuestionTemplate> parse(std::string_view text);

  // As the path of a request, with its query: every byte of a value but letters, digits and `-._~`
  // is percent-encoded, so that no value adds a segment, a parameter or a fragment. None: a segment
  // would be `.` or `..`, with which servers leave the path.
  [[nodiscard]] std::optional<std::string> path(const Identity& identity, Attempt attempt) const;
  // As the value of a header: only control characters and `%` are percent-encoded.
  [[nodiscard]] std::string headerValue(const Identity& identity, Attempt attempt) const;

  const std::string& text() const { return text_; }
  bool operator==(const QuestionTemplate& other) const { return text_ == other.text_; }

private:
  enum class Name : uint8_t { None, Tenant, Operation, Key, Attempt };
  // Fixed text, then a value.
  struct Part {
    std::string text;
    Name name = Name::None;
  };

  static std::optional<Name> nameOf(std::string_view placeholder);
  static std::string valueOf(Name name, const Identity& identity, Attempt attempt);

  std::string text_;
  std::vector<Part> parts_;
};

}  // namespace idempotency::protocol
