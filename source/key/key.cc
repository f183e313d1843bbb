#include "source/key/key.h"

#include <algorithm>
#include <cassert>

#include "source/key/structured_field.h"

namespace idempotency {
namespace {

static_assert(sizeof(Key) == KeyLengthLimit + 1);

std::string_view trimSpaces(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

constexpr bool isHexDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool isUuid(std::string_view text) {
  constexpr std::string_view Form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  return std::equal(text.begin(), text.end(), Form.begin(), Form.end(),
                    [](char c, char form) { return form == 'x' ? isHexDigit(c) : c == form; });
}

// Lengths are judged before the bytes are used: `text` may be cut at KeyLengthLimit, `length` never
// is.
KeyResult applyRules(std::string_view text, size_t length, const KeyRules& rules) {
  if (length < std::max<size_t>(rules.min_length, 1)) {
    return KeyProblem::TooShort;
  }
  if (length > std::min(rules.max_length, KeyLengthLimit)) {
    return KeyProblem::TooLong;
  }
  if (rules.uuid_only && !isUuid(text)) {
    return KeyProblem::NotUuid;
  }
  return Key(text);
}

KeyResult parseStrict(std::string_view line, const KeyRules& rules) {
  std::array<char, KeyLengthLimit> value;
  const StringItem item = parseStringItem(line, value);
  switch (item.status) {
    case StringItemStatus::Malformed:
      return KeyProblem::Malformed;
    case StringItemStatus::List:
      return KeyProblem::TwoLines;
    case StringItemStatus::Ok:
      return applyRules({value.data(), std::min(item.length, value.size())}, item.length, rules);
  }
  return KeyProblem::Malformed;
}

// Intermediaries may join header lines with a comma (RFC 9110 §5.3), so a comma is never part of a
// raw key.
KeyResult parseRaw(std::string_view line, const KeyRules& rules) {
  const std::string_view text = trimSpaces(line);
  if (text.find(',') != std::string_view::npos) {
    return KeyProblem::TwoLines;
  }
  return applyRules(text, text.size(), rules);
}

KeyResult parseEither(std::string_view line, const KeyRules& rules) {
  return trimSpaces(line).starts_with('"') ? parseStrict(line, rules) : parseRaw(line, rules);
}

}  // namespace

std::string_view describe(KeyProblem problem) {
  switch (problem) {
    case KeyProblem::Missing:
      return "The Idempotency-Key header is missing.";
    case KeyProblem::TwoLines:
      return "More than one Idempotency-Key was sent.";
    case KeyProblem::Malformed:
      return "The Idempotency-Key is not a string in double quotes (RFC 8941).";
    case KeyProblem::BadCharacter:
      return "The Idempotency-Key has a character that is not printable ASCII.";
    case KeyProblem::TooShort:
      return "The Idempotency-Key is too short.";
    case KeyProblem::TooLong:
      return "The Idempotency-Key is too long.";
    case KeyProblem::NotUuid:
      return "The Idempotency-Key is not a UUID.";
  }
  return "The Idempotency-Key is not valid.";
}

Key::Key(std::string_view text) : length_(static_cast<uint8_t>(text.size())) {
  assert(text.size() <= KeyLengthLimit);
  std::copy(text.begin(), text.end(), bytes_.begin());
}

KeyResult parseKey(std::span<const std::string_view> lines, const KeyRules& rules) {
  if (lines.empty()) {
    return KeyProblem::Missing;
  }
  if (lines.size() > 1) {
    return KeyProblem::TwoLines;
  }
  const std::string_view line = lines.front();
  if (!std::all_of(line.begin(), line.end(), isPrintableAscii)) {
    return KeyProblem::BadCharacter;
  }
  switch (rules.syntax) {
    case KeySyntax::Strict:
      return parseStrict(line, rules);
    case KeySyntax::Raw:
      return parseRaw(line, rules);
    case KeySyntax::Either:
      return parseEither(line, rules);
  }
  return KeyProblem::Malformed;
}

}  // namespace idempotency
