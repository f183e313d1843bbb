// Holds the parser against the grammar of RFC 8941 and RFC 9651 written as a regular expression, on
// random lines.

#include <random>
#include <regex>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

#include "source/key/structured_field.h"

namespace idempotency::key {
namespace {

// The ABNF of RFC 8941 §3.1.2, §3.3 and RFC 9651 §3.3.7, §3.3.8. Two rules are not the ABNF's but
// the parsing algorithm's: padding of a Byte Sequence may be left out, and spaces stand around the
// Item. Display Strings have no escapes here: whether those give UTF-8 is no matter of grammar.
std::string itemPattern() {
  const std::string string = R"re("(?:[ !#-\[\]-~]|\\["\\])*")re";
  const std::string number = R"re(-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15}))re";
  const std::string token = R"re([A-Za-z*][-!#$%&'*+.^_`|~0-9A-Za-z:/]*)re";
  const std::string bytes =
      R"re(:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?:)re";
  const std::string boolean = R"re(\?[01])re";
  const std::string date = R"re(@-?[0-9]{1,15})re";
  const std::string display = R"re(%"[ !#$&-~]*")re";
  const std::string bare = "(?:" + string + "|" + number + "|" + token + "|" + bytes + "|" +
                           boolean + "|" + date + "|" + display + ")";
  const std::string parameter = "; *[a-z*][-a-z0-9_.*]*(?:=" + bare + ")?";
  return " *(" + string + ")(?:" + parameter + ")* *";
}

// What the matched String stands for, found another way than the parser does.
std::string unescape(std::string_view quoted) {
  std::string text(quoted.substr(1, quoted.size() - 2));
  for (size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\', at + 1)) {
    text.erase(at, 1);
  }
  return text;
}

class LineGenerator {
public:
  explicit LineGenerator(uint64_t seed) : random_(seed) {}

  // Pieces of the grammar in random order, with a stray byte here and there.
  std::string next() {
    static constexpr std::string_view Pieces[] = {"\"",       "\"k\"", "\\\"",
                                                  "\\\\",     "\\",    ";",
                                                  ";a",       "; b",   "=",
                                                  "=1",       "-",     ".",
                                                  "12",       "?1",    "?0",
                                                  "?",        "@",     "@7",
                                                  ":",        "::",    "ab:",
                                                  ":AA",      "==:",   "%\"",
                                                  "%",        " ",     ",",
                                                  "tok",      "*",     "A/b",
                                                  "x",        "_",     "=:",
                                                  "=?1",      "=@1",   "=\"",
                                                  "=%\"x",    "~",     "123456789012",
                                                  "(",        ")",     "\t",
                                                  "\x7f",     "!",     "3.",
                                                  ".14",      "+",     "/",
                                                  "a-b.c*d_e"};
    std::string line = below(4) == 0 ? "" : "\"key\"";
    for (size_t count = below(10); count > 0; --count) {
      line += Pieces[below(std::size(Pieces))];
    }
    return line;
  }

private:
  size_t below(size_t limit) { return static_cast<size_t>(random_() % limit); }

  std::mt19937_64 random_;
};

TEST(StructuredFieldGrammarTest, RandomLinesAreReadAsTheGrammarSays) {
  constexpr uint64_t Seed = 9651;
  const std::regex item(itemPattern(), std::regex::ECMAScript | std::regex::optimize);
  LineGenerator generator(Seed);
  size_t accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    const std::string line = generator.next();
    std::string value(line.size(), '\0');
    const StringItem result = parseStringItem(line, value);
    value.resize(result.length);
    std::smatch match;
    const bool want = std::regex_match(line, match, item);
    ASSERT_EQ(result.status == StringItemStatus::Ok, want) << "line " << i << ": " << line;
    if (want) {
      ASSERT_EQ(value, unescape(match[1].str())) << "line " << i << ": " << line;
      ++accepted;
    }
  }
  // Both sides of the grammar must have been met often.
  EXPECT_GT(accepted, 10000);
  EXPECT_LT(accepted, 190000);
}

}  // namespace
}  // namespace idempotency::key
