#include "source/key/key.h"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>

#include "source/key/structured_field.h"

namespace idempotency::key {
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
  static_assert(Form.size() == UuidLength);
  return std::equal(text.begin(), text.end(), Form.begin(), Form.end(),
                    [](char c, char form) { return form == 'x' ? isHexDigit(c) : c == form; });
}

// Lengths are judged before the bytes are used: `text` may be cut at KeyLengthLimit, `length` never
// is.
KeyResult applyRules(std::string_view text, size_t length, const KeyRules& rules) {
  if (length < rules.shortest()) {
    return KeyRefusal{KeyProblem::TooShort, length};
  }
  if (length > rules.longest()) {
    return KeyRefusal{KeyProblem::TooLong, length};
  }
  if (rules.uuid_only && !isUuid(text)) {
    return KeyRefusal{KeyProblem::NotUuid};
  }
  return Key(text);
}

KeyResult parseStrict(std::string_view line, const KeyRules& rules) {
  std::array<char, KeyLengthLimit> value;
  const StringItem item = parseStringItem(line, value);
  switch (item.status) {
    case StringItemStatus::Malformed:
      return KeyRefusal{KeyProblem::Malformed};
    case StringItemStatus::List:
      return KeyRefusal{KeyProblem::TwoLines};
    case StringItemStatus::Ok:
      return applyRules({value.data(), std::min(item.length, value.size())}, item.length, rules);
  }
  return KeyRefusal{KeyProblem::Malformed};
}

// Intermediaries may join header lines with a comma (RFC 9110 §5.3), so a comma is never part of a
// raw key.
KeyResult parseRaw(std::string_view line, const KeyRules& rules) {
  const std::string_view text = trimSpaces(line);
  if (text.find(',') != std::string_view::npos) {
    return KeyRefusal{KeyProblem::TwoLines};
  }
  return applyRules(text, text.size(), rules);
}

KeyResult parseEither(std::string_view line, const KeyRules& rules) {
  return trimSpaces(line).starts_with('"') ? parseStrict(line, rules) : parseRaw(line, rules);
}

// What the rules say about a key's length.
std::string requiredLength(const KeyRules& rules) {
  if (rules.uuid_only) {
    return fmt::format("a UUID, which has {}", UuidLength);
  }
  if (rules.shortest() == rules.longest()) {
    return fmt::format("{}", rules.longest());
  }
  return fmt::format("{} to {}", rules.shortest(), rules.longest());
}

std::string describeLength(size_t length, const KeyRules& rules) {
  const std::string required = requiredLength(rules);
  if (length == 0) {
    return fmt::format("The key is empty; this operation requires {} characters.", required);
  }
  return fmt::format("The key has {} character{}; this operation requires {}.", length,
                     length == 1 ? "" : "s", required);
}

}  // namespace

std::string describe(const KeyRefusal& refusal, const KeyRules& rules) {
  switch (refusal.problem) {
    case KeyProblem::Missing:
      return "The Idempotency-Key header is missing.";
    case KeyProblem::TwoLines:
      return "More than one Idempotency-Key was sent.";
    case KeyProblem::Malformed:
      return "The Idempotency-Key is not a double-quoted string (RFC 8941).";
    case KeyProblem::BadCharacter:
      return "The Idempotency-Key contains a character that is not printable ASCII.";
    case KeyProblem::TooShort:
    case KeyProblem::TooLong:
      return describeLength(refusal.length, rules);
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
    return KeyRefusal{KeyProblem::Missing};
  }
  if (lines.size() > 1) {
    return KeyRefusal{KeyProblem::TwoLines};
  }
  const std::string_view line = lines.front();
  if (!std::all_of(line.begin(), line.end(), isPrintableAscii)) {
    return KeyRefusal{KeyProblem::BadCharacter};
  }
  switch (rules.syntax) {
    case KeySyntax::Strict:
      return parseStrict(line, rules);
    case KeySyntax::Raw:
      return parseRaw(line, rules);
    case KeySyntax::Either:
      return parseEither(line, rules);
  }
  return KeyRefusal{KeyProblem::Malformed};
}

}  // namespace idempotency::key
