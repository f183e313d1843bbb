// The input is the header's lines, parted by newlines; an empty input means no line. Each is read
// by every syntax under several rules.

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "source/key/key.h"
#include "source/key/structured_field.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

constexpr std::array Syntaxes = {key::KeySyntax::Strict, key::KeySyntax::Raw,
                                 key::KeySyntax::Either};

std::vector<std::string_view> splitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  if (text.empty()) {
    return lines;
  }
  while (true) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return lines;
    }
    text.remove_prefix(end + 1);
  }
}

std::string_view trimSpaces(std::string_view text) {
  while (text.starts_with(' ')) {
    text.remove_prefix(1);
  }
  while (text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  return text;
}

key::KeyRules widest(key::KeySyntax syntax) {
  return {.syntax = syntax, .min_length = 1, .max_length = key::KeyLengthLimit, .uuid_only = false};
}

// A key that the rules let through keeps them, and survives being written and read again.
void checkAccepted(const key::Key& key, const key::KeyRules& rules) {
  const std::string_view text = key.view();
  FUZZ_CHECK(!text.empty() && text.size() <= key::KeyLengthLimit);
  FUZZ_CHECK(text.size() >= rules.min_length && text.size() <= rules.max_length);
  FUZZ_CHECK(std::all_of(text.begin(), text.end(), key::isPrintableAscii));
  FUZZ_CHECK(!rules.uuid_only || text.size() == key::UuidLength);
  FUZZ_CHECK(key::Key(text) == key);

  const auto written = key::serializeString(text);
  FUZZ_CHECK(written.has_value());
  const std::array<std::string_view, 1> lines = {*written};
  key::KeyRules strict = rules;
  strict.syntax = key::KeySyntax::Strict;
  FUZZ_CHECK(key::parseKey(lines, strict) == key::KeyResult(key));
  strict.syntax = key::KeySyntax::Either;
  FUZZ_CHECK(key::parseKey(lines, strict) == key::KeyResult(key));
}

// Tighter rules only ever refuse: they never make another key.
void checkRules(std::span<const std::string_view> lines, const key::KeyRules& rules) {
  const key::KeyResult result = key::parseKey(lines, rules);
  FUZZ_CHECK(result == key::parseKey(lines, rules));
  const key::Key* const key = std::get_if<key::Key>(&result);
  if (key == nullptr) {
    const auto& refusal = std::get<key::KeyRefusal>(result);
    FUZZ_CHECK(!key::describe(refusal, rules).empty());
    FUZZ_CHECK((refusal.problem == key::KeyProblem::Missing) == lines.empty());
    return;
  }
  FUZZ_CHECK(lines.size() == 1);
  checkAccepted(*key, rules);
  FUZZ_CHECK(key::parseKey(lines, widest(rules.syntax)) == result);
}

void checkSyntaxes(std::span<const std::string_view> lines) {
  const key::KeyResult strict = key::parseKey(lines, widest(key::KeySyntax::Strict));
  const key::KeyResult raw = key::parseKey(lines, widest(key::KeySyntax::Raw));
  const key::KeyResult either = key::parseKey(lines, widest(key::KeySyntax::Either));
  if (lines.size() != 1) {
    const key::KeyResult want =
        key::KeyRefusal{lines.empty() ? key::KeyProblem::Missing : key::KeyProblem::TwoLines};
    FUZZ_CHECK(strict == want && raw == want && either == want);
    return;
  }
  const std::string_view text = trimSpaces(lines.front());
  FUZZ_CHECK(either == (text.starts_with('"') ? strict : raw));
  if (const key::Key* const key = std::get_if<key::Key>(&raw)) {
    FUZZ_CHECK(key->view() == text && text.find(',') == std::string_view::npos);
  }
  if (std::holds_alternative<key::Key>(strict)) {
    FUZZ_CHECK(text.starts_with('"') && text.size() >= 3);
  }
}

// What is read does not depend on the room for it, and nothing is written beyond that room.
void checkStringItem(std::string_view line) {
  const auto whole = std::make_unique<char[]>(line.size());
  const key::StringItem item = key::parseStringItem(line, {whole.get(), line.size()});
  for (const size_t room : {size_t{0}, size_t{1}, line.size() / 2}) {
    const auto part = std::make_unique<char[]>(room);
    const key::StringItem again = key::parseStringItem(line, {part.get(), room});
    FUZZ_CHECK(again.status == item.status && again.length == item.length);
    FUZZ_CHECK(std::equal(part.get(), part.get() + std::min(room, item.length), whole.get()));
  }
  FUZZ_CHECK(item.length <= line.size());
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const auto lines = splitLines(fuzzText(data, size));
  for (const key::KeySyntax syntax : Syntaxes) {
    checkRules(lines, widest(syntax));
    checkRules(lines, {.syntax = syntax});
    checkRules(lines, {.syntax = syntax, .min_length = 4, .max_length = 8});
    checkRules(lines, {.syntax = syntax, .min_length = 0, .max_length = 100000});
    checkRules(lines, {.syntax = syntax, .uuid_only = true});
  }
  checkSyntaxes(lines);
  for (const std::string_view line : lines) {
    checkStringItem(line);
  }
  return 0;
}
