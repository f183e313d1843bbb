#include "source/key/key.h"

#include <array>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::key {
namespace {

constexpr std::string_view Uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324";
constexpr std::string_view QuotedUuid = "\"8e03978e-40d5-43e8-bc93-6894a57f9324\"";

std::string inQuotes(std::string_view text) {
  return '"' + std::string(text) + '"';
}

std::string repeat(size_t count) {
  return std::string(count, 'k');
}

KeyResult parseLine(std::string_view line, const KeyRules& rules) {
  const std::array<std::string_view, 1> lines = {line};
  return parseKey(lines, rules);
}

std::string show(KeyProblem problem) {
  return "problem " + std::to_string(static_cast<int>(problem));
}

// A key or the problem, as a text that tests compare and print.
std::string show(const KeyResult& result) {
  if (const Key* const key = std::get_if<Key>(&result)) {
    return "key " + std::string(key->view());
  }
  return show(std::get<KeyRefusal>(result).problem);
}

struct Case {
  std::string name;
  std::string line;
  KeyRules rules;
  std::string want;
};

std::ostream& operator<<(std::ostream& out, const Case& value) {
  return out << value.line;
}

std::string caseName(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

std::string accepted(std::string_view key) {
  return "key " + std::string(key);
}

class KeyTest : public testing::TestWithParam<Case> {};

TEST_P(KeyTest, LineGivesKeyOrProblem) {
  EXPECT_EQ(show(parseLine(GetParam().line, GetParam().rules)), GetParam().want);
}

constexpr KeyRules Strict = {.syntax = KeySyntax::Strict};
constexpr KeyRules StrictAnyLength = {.syntax = KeySyntax::Strict, .min_length = 1};
constexpr KeyRules Raw = {.syntax = KeySyntax::Raw};
constexpr KeyRules RawAnyLength = {.syntax = KeySyntax::Raw, .min_length = 1};
constexpr KeyRules Either = {.syntax = KeySyntax::Either};
constexpr KeyRules FourToSix = {.min_length = 4, .max_length = 6};
constexpr KeyRules JustFour = {.min_length = 4, .max_length = 4};
constexpr KeyRules StrictFromZero = {.min_length = 0};
constexpr KeyRules RawFromZero = {.syntax = KeySyntax::Raw, .min_length = 0};
constexpr KeyRules StrictUnlimited = {.max_length = 100000};
constexpr KeyRules RawUnlimited = {.syntax = KeySyntax::Raw, .max_length = 100000};
constexpr KeyRules RawUuidTo35 = {.syntax = KeySyntax::Raw, .max_length = 35, .uuid_only = true};
constexpr KeyRules StrictUuid = {.syntax = KeySyntax::Strict, .uuid_only = true};
constexpr KeyRules RawUuid = {.syntax = KeySyntax::Raw, .uuid_only = true};

INSTANTIATE_TEST_SUITE_P(
    Strict, KeyTest,
    testing::ValuesIn(std::vector<Case>{
        {"Quoted", std::string(QuotedUuid), Strict, accepted(Uuid)},
        {"SpacesAround", "  " + std::string(QuotedUuid) + "   ", Strict, accepted(Uuid)},
        {"SpacesInsideStay", "\"  a key with spaces  \"", Strict,
         accepted("  a key with spaces  ")},
        {"CaseStays", "\"AbCdEfGhIjKlMnOp\"", Strict, accepted("AbCdEfGhIjKlMnOp")},
        {"CommaInside", "\"0123456789,abcdef\"", Strict, accepted("0123456789,abcdef")},
        {"SemicolonInside", "\"0123456789;abc=1\"", Strict, accepted("0123456789;abc=1")},
        {"Escapes", R"("a \"key\" with \\ in it")", Strict, accepted(R"(a "key" with \ in it)")},
        {"ParametersDropped", std::string(QuotedUuid) + ";a=1;b", Strict, accepted(Uuid)},
        {"Bare", std::string(Uuid), Strict, show(KeyProblem::Malformed)},
        {"Empty", "", Strict, show(KeyProblem::Malformed)},
        {"OnlySpaces", "   ", Strict, show(KeyProblem::Malformed)},
        {"Token", "abcdefghijklmnopq", Strict, show(KeyProblem::Malformed)},
        {"Integer", "123456789012345", StrictAnyLength, show(KeyProblem::Malformed)},
        {"ByteSequence", ":MDEyMzQ1Njc4OWFiY2RlZg==:", Strict, show(KeyProblem::Malformed)},
        {"Boolean", "?1", StrictAnyLength, show(KeyProblem::Malformed)},
        {"Date", "@1659578233", StrictAnyLength, show(KeyProblem::Malformed)},
        {"DisplayString", "%\"0123456789abcdef\"", Strict, show(KeyProblem::Malformed)},
        {"InnerList", "(\"0123456789abcdef\")", Strict, show(KeyProblem::Malformed)},
        {"SingleQuotes", "'0123456789abcdef'", Strict, show(KeyProblem::Malformed)},
        {"NoClosingQuote", "\"0123456789abcdef", Strict, show(KeyProblem::Malformed)},
        {"NoOpeningQuote", "0123456789abcdef\"", Strict, show(KeyProblem::Malformed)},
        {"BadEscape", R"("0123456789\abcdef")", Strict, show(KeyProblem::Malformed)},
        {"EscapeAtEnd", "\"0123456789abcdef\\", Strict, show(KeyProblem::Malformed)},
        {"TextAfter", std::string(QuotedUuid) + " x", Strict, show(KeyProblem::Malformed)},
        {"BadParameter", std::string(QuotedUuid) + ";A=1", Strict, show(KeyProblem::Malformed)},
        {"TwoInOneLine", "\"0123456789abcdef\", \"0123456789abcdef\"", Strict,
         show(KeyProblem::TwoLines)},
        {"TwoInOneLineWithParameters", "\"0123456789abcdef\";a ,\"x\"", Strict,
         show(KeyProblem::TwoLines)},
        {"TrailingComma", "\"0123456789abcdef\",", Strict, show(KeyProblem::TwoLines)},
    }),
    caseName);

INSTANTIATE_TEST_SUITE_P(
    Raw, KeyTest,
    testing::ValuesIn(std::vector<Case>{
        {"Bare", std::string(Uuid), Raw, accepted(Uuid)},
        {"SpacesAround", "  " + std::string(Uuid) + "   ", Raw, accepted(Uuid)},
        {"SpaceInside", "order 0123456789", Raw, accepted("order 0123456789")},
        {"QuotesStay", std::string(QuotedUuid), Raw, accepted(QuotedUuid)},
        {"BackslashStays", R"(0123456789\"abcde)", Raw, accepted(R"(0123456789\"abcde)")},
        {"ParametersStay", "0123456789abcdef;a=1", Raw, accepted("0123456789abcdef;a=1")},
        {"Base64", "MDEyMzQ1Njc4OWFiY2RlZg==", Raw, accepted("MDEyMzQ1Njc4OWFiY2RlZg==")},
        {"Empty", "", RawAnyLength, show(KeyProblem::TooShort)},
        {"OnlySpaces", "                    ", RawAnyLength, show(KeyProblem::TooShort)},
        {"JoinedLines", "0123456789abcdef, 0123456789abcdef", Raw, show(KeyProblem::TwoLines)},
        {"JoinedLinesWithoutSpace", "0123456789abcdef,0123456789abcdef", Raw,
         show(KeyProblem::TwoLines)},
        {"TrailingComma", "0123456789abcdef,", Raw, show(KeyProblem::TwoLines)},
        {"JoinedQuotedLines", "\"0123456789abcdef\",\"0123456789abcdef\"", Raw,
         show(KeyProblem::TwoLines)},
    }),
    caseName);

INSTANTIATE_TEST_SUITE_P(
    Either, KeyTest,
    testing::ValuesIn(std::vector<Case>{
        {"Quoted", std::string(QuotedUuid), Either, accepted(Uuid)},
        {"QuotedAfterSpaces", "  " + std::string(QuotedUuid), Either, accepted(Uuid)},
        {"QuotedWithParameters", std::string(QuotedUuid) + ";a", Either, accepted(Uuid)},
        {"Bare", std::string(Uuid), Either, accepted(Uuid)},
        {"BareWithQuoteInside", "0123456789\"abcdef", Either, accepted("0123456789\"abcdef")},
        {"QuoteDecidesForStrict", "\"0123456789abcdef", Either, show(KeyProblem::Malformed)},
        {"QuotedThenBare", "\"0123456789abcdef\", x", Either, show(KeyProblem::TwoLines)},
        {"BareThenQuoted", "0123456789abcdef, \"x\"", Either, show(KeyProblem::TwoLines)},
        {"Empty", "", Either, show(KeyProblem::TooShort)},
    }),
    caseName);

INSTANTIATE_TEST_SUITE_P(
    Characters, KeyTest,
    testing::ValuesIn(std::vector<Case>{
        {"NulStrict", std::string("\"0123456789\0abcdef\"", 19), Strict,
         show(KeyProblem::BadCharacter)},
        {"NulRaw", std::string("0123456789\0abcdef", 17), Raw, show(KeyProblem::BadCharacter)},
        {"TabStrict", "\"0123456789\tabcdef\"", Strict, show(KeyProblem::BadCharacter)},
        {"TabBefore", "\t\"0123456789abcdef\"", Strict, show(KeyProblem::BadCharacter)},
        {"TabAfterRaw", "0123456789abcdef\t", Raw, show(KeyProblem::BadCharacter)},
        {"NewlineRaw", "0123456789\nabcdef", Raw, show(KeyProblem::BadCharacter)},
        {"CarriageReturnRaw", "0123456789\rabcdef", Raw, show(KeyProblem::BadCharacter)},
        {"DeleteRaw",
         "0123456789\x7f"
         "abcdef",
         Raw, show(KeyProblem::BadCharacter)},
        {"Utf8Raw",
         "0123456789\xc3\xbc"
         "abcdef",
         Raw, show(KeyProblem::BadCharacter)},
        {"Utf8Strict",
         "\"0123456789\xc3\xbc"
         "abcdef\"",
         Strict, show(KeyProblem::BadCharacter)},
        {"Latin1Either",
         "0123456789\xfc"
         "abcdef",
         Either, show(KeyProblem::BadCharacter)},
        {"InParameter", "\"0123456789abcdef\";a=\"\x01\"", Strict, show(KeyProblem::BadCharacter)},
    }),
    caseName);

INSTANTIATE_TEST_SUITE_P(
    Lengths, KeyTest,
    testing::ValuesIn(std::vector<Case>{
        {"DefaultShortest", inQuotes(repeat(16)), Strict, accepted(repeat(16))},
        {"DefaultTooShort", inQuotes(repeat(15)), Strict, show(KeyProblem::TooShort)},
        {"DefaultLongest", inQuotes(repeat(255)), Strict, accepted(repeat(255))},
        {"DefaultTooLong", inQuotes(repeat(256)), Strict, show(KeyProblem::TooLong)},
        {"RawShortest", repeat(16), Raw, accepted(repeat(16))},
        {"RawTooShort", repeat(15), Raw, show(KeyProblem::TooShort)},
        {"RawLongest", repeat(255), Raw, accepted(repeat(255))},
        {"RawTooLong", repeat(256), Raw, show(KeyProblem::TooLong)},
        {"ConfiguredShortest", inQuotes("abcd"), FourToSix, accepted("abcd")},
        {"ConfiguredTooShort", inQuotes("abc"), FourToSix, show(KeyProblem::TooShort)},
        {"ConfiguredLongest", inQuotes("abcdef"), FourToSix, accepted("abcdef")},
        {"ConfiguredTooLong", inQuotes("abcdefg"), FourToSix, show(KeyProblem::TooLong)},
        {"EscapesCountOnce", R"("\"\"\\\\")", JustFour, accepted(R"(""\\)")},
        {"SpacesAroundDoNotCount", "   abcdefghijklmno   ", Raw, show(KeyProblem::TooShort)},
        {"ParametersDoNotCount", "\"abcdefghijklmno\";a=1234567", Strict,
         show(KeyProblem::TooShort)},
        {"EmptyIsNeverAKey", "\"\"", StrictFromZero, show(KeyProblem::TooShort)},
        {"EmptyRawIsNeverAKey", "", RawFromZero, show(KeyProblem::TooShort)},
        {"TheLimitHoldsWhateverTheRulesSay", inQuotes(repeat(256)), StrictUnlimited,
         show(KeyProblem::TooLong)},
        {"TheLimitHoldsForRawToo", repeat(256), RawUnlimited, show(KeyProblem::TooLong)},
        {"LongAndMalformedIsMalformed", '"' + repeat(300), Strict, show(KeyProblem::Malformed)},
    }),
    caseName);

INSTANTIATE_TEST_SUITE_P(
    UuidOnly, KeyTest,
    testing::ValuesIn(std::vector<Case>{
        {"Strict", std::string(QuotedUuid), StrictUuid, accepted(Uuid)},
        {"Raw", std::string(Uuid), RawUuid, accepted(Uuid)},
        {"UpperCaseStays", "8E03978E-40D5-43E8-BC93-6894A57F9324", RawUuid,
         accepted("8E03978E-40D5-43E8-BC93-6894A57F9324")},
        {"Version7", "0190163d-8694-739b-aea5-966c26f8ad91", RawUuid,
         accepted("0190163d-8694-739b-aea5-966c26f8ad91")},
        {"QuotesAreNoUuid", std::string(QuotedUuid), RawUuid, show(KeyProblem::NotUuid)},
        {"NoDashes", "8e03978e40d543e8bc936894a57f9324", RawUuid, show(KeyProblem::NotUuid)},
        {"Braces", "{8e03978e-40d5-43e8-bc93-6894a57f9324}", RawUuid, show(KeyProblem::NotUuid)},
        {"Urn", "urn:uuid:8e03978e-40d5-43e8-bc93-6894a57f9324", RawUuid,
         show(KeyProblem::NotUuid)},
        {"NoHexadecimal", "8e03978g-40d5-43e8-bc93-6894a57f9324", RawUuid,
         show(KeyProblem::NotUuid)},
        {"DashMoved", "8e03978-e40d5-43e8-bc93-6894a57f9324", RawUuid, show(KeyProblem::NotUuid)},
        {"OneTooShort", "8e03978e-40d5-43e8-bc93-6894a57f932", RawUuid, show(KeyProblem::NotUuid)},
        {"OneTooLong", "8e03978e-40d5-43e8-bc93-6894a57f93244", RawUuid, show(KeyProblem::NotUuid)},
        {"LengthsStillHold", std::string(Uuid), RawUuidTo35, show(KeyProblem::TooLong)},
    }),
    caseName);

class EverySyntaxTest : public testing::TestWithParam<KeySyntax> {};

TEST_P(EverySyntaxTest, NoLineIsMissing) {
  EXPECT_EQ(show(parseKey({}, {.syntax = GetParam()})), show(KeyProblem::Missing));
}

TEST_P(EverySyntaxTest, TwoLinesAreRefusedEvenWhenAlike) {
  const std::array<std::string_view, 2> quoted_lines = {QuotedUuid, QuotedUuid};
  EXPECT_EQ(show(parseKey(quoted_lines, {.syntax = GetParam()})), show(KeyProblem::TwoLines));
  const std::array<std::string_view, 2> bare_lines = {Uuid, Uuid};
  EXPECT_EQ(show(parseKey(bare_lines, {.syntax = GetParam()})), show(KeyProblem::TwoLines));
}

TEST_P(EverySyntaxTest, ASecondLineIsRefusedEvenWhenEmpty) {
  const std::array<std::string_view, 2> lines = {QuotedUuid, ""};
  EXPECT_EQ(show(parseKey(lines, {.syntax = GetParam()})), show(KeyProblem::TwoLines));
}

TEST_P(EverySyntaxTest, ManyLinesAreRefused) {
  const std::vector<std::string_view> lines(1000, QuotedUuid);
  EXPECT_EQ(show(parseKey(lines, {.syntax = GetParam()})), show(KeyProblem::TwoLines));
}

// 1 MiB would take half an hour and more if any step looked back at what was read.
TEST_P(EverySyntaxTest, HugeLinesEndSoon) {
  constexpr size_t Huge = size_t{1} << 20;
  for (const std::string_view unit :
       {"k", " ", "\"", "\\", ";a", "; ", ";a=:", ",", "%\"%c3", "-"}) {
    std::string line = "\"k\"";
    while (line.size() < Huge) {
      line += unit;
    }
    const KeyResult result = parseLine(line, {.syntax = GetParam(), .min_length = 1});
    EXPECT_EQ(std::holds_alternative<Key>(result),
              (unit == " ") || (unit == ";a" && GetParam() != KeySyntax::Raw))
        << unit;
  }
}

INSTANTIATE_TEST_SUITE_P(KeyTest, EverySyntaxTest,
                         testing::Values(KeySyntax::Strict, KeySyntax::Raw, KeySyntax::Either));

TEST(KeyValueTest, HoldsItsOwnBytes) {
  std::string line = inQuotes("0123456789abcdef");
  const KeyResult result = parseLine(line, Strict);
  line.assign(line.size(), '!');
  EXPECT_EQ(show(result), accepted("0123456789abcdef"));
}

TEST(KeyValueTest, EqualityComparesTheText) {
  EXPECT_EQ(Key("abc"), Key("abc"));
  EXPECT_NE(Key("abc"), Key("abd"));
  EXPECT_NE(Key("abc"), Key("ABC"));
  EXPECT_NE(Key("abc"), Key("abcd"));
}

TEST(KeyValueTest, HoldsTheLongestKey) {
  EXPECT_EQ(Key(repeat(255)).view(), repeat(255));
}

TEST(KeyProblemTest, EveryProblemHasItsOwnSentence) {
  const std::array problems = {
      KeyProblem::Missing,  KeyProblem::TwoLines, KeyProblem::Malformed, KeyProblem::BadCharacter,
      KeyProblem::TooShort, KeyProblem::TooLong,  KeyProblem::NotUuid};
  std::set<std::string> sentences;
  for (const KeyProblem problem : problems) {
    const KeyRefusal refusal{problem, problem == KeyProblem::TooLong ? size_t{300} : 3};
    EXPECT_TRUE(describe(refusal, {}).ends_with('.'));
    sentences.insert(describe(refusal, {}));
  }
  EXPECT_EQ(sentences.size(), problems.size());
}

TEST(KeyProblemTest, LengthIsStatedWithTheLimits) {
  struct LengthCase {
    std::string line;
    KeyRules rules;
    const char* want;
  };
  for (const LengthCase& test : {
           LengthCase{"abcde", Raw, "The key has 5 characters; this operation requires 16 to 255."},
           LengthCase{"k", Raw, "The key has 1 character; this operation requires 16 to 255."},
           LengthCase{"", Raw, "The key is empty; this operation requires 16 to 255 characters."},
           // Quotes and escapes do not count, and a key longer than the limit is counted whole.
           LengthCase{R"("a\"b")", FourToSix,
                      "The key has 3 characters; this operation requires 4 to 6."},
           LengthCase{inQuotes(repeat(1000)), Strict,
                      "The key has 1000 characters; this operation requires 16 to 255."},
           LengthCase{"abc",
                      {.syntax = KeySyntax::Raw, .min_length = 4, .max_length = 4},
                      "The key has 3 characters; this operation requires 4."},
           // Whatever the rules say.
           LengthCase{"", RawFromZero,
                      "The key is empty; this operation requires 1 to 255 characters."},
           LengthCase{repeat(256), RawUnlimited,
                      "The key has 256 characters; this operation requires 16 to 255."},
           LengthCase{"abc", RawUuid,
                      "The key has 3 characters; this operation requires a UUID, which has 36."},
       }) {
    const KeyResult result = parseLine(test.line, test.rules);
    ASSERT_TRUE(std::holds_alternative<KeyRefusal>(result)) << test.want;
    EXPECT_EQ(describe(std::get<KeyRefusal>(result), test.rules), test.want);
  }
}

}  // namespace
}  // namespace idempotency::key
