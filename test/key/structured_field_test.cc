#include "source/key/structured_field.h"

#include <array>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::key {
namespace {

struct Read {
  StringItemStatus status;
  std::string value;
};

Read read(std::string_view line) {
  std::string value(line.size(), '\0');
  const StringItem item = parseStringItem(line, value);
  value.resize(item.length);
  return {item.status, value};
}

struct Case {
  std::string name;
  std::string text;
  bool ok;
};

std::string caseName(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

// The parameters after a String: the value stays "key" whatever they are.
class ParametersTest : public testing::TestWithParam<Case> {};

TEST_P(ParametersTest, AreCheckedAndDropped) {
  const Read result = read("\"key\"" + GetParam().text);
  EXPECT_EQ(result.status == StringItemStatus::Ok, GetParam().ok) << GetParam().text;
  EXPECT_EQ(result.value, GetParam().ok ? "key" : "");
}

INSTANTIATE_TEST_SUITE_P(Names, ParametersTest,
                         testing::ValuesIn(std::vector<Case>{
                             {"None", "", true},
                             {"One", ";a", true},
                             {"Many", ";a;b;c;d=1;e", true},
                             {"Repeated", ";a=1;a=2", true},
                             {"Star", ";*", true},
                             {"AllMarks", ";a_b-c.d*e9", true},
                             {"SpacesAfterSemicolon", ";   a=1", true},
                             {"SpacesAtEnd", ";a=1   ", true},
                             {"Empty", ";", false},
                             {"EmptyThenSpace", "; ", false},
                             {"EmptyThenNext", ";;a", false},
                             {"SpaceBeforeSemicolon", " ;a", false},
                             {"SpaceBeforeSecondSemicolon", ";a ;b", false},
                             {"TabAfterSemicolon", ";\ta", false},
                             {"UpperCase", ";A", false},
                             {"UpperCaseInside", ";aA", false},
                             {"StartsWithDigit", ";1a", false},
                             {"StartsWithDash", ";-a", false},
                             {"StartsWithUnderscore", ";_a", false},
                             {"StartsWithDot", ";.a", false},
                             {"Slash", ";a/b", false},
                             {"SpaceBeforeEquals", ";a =1", false},
                             {"SpaceAfterEquals", ";a= 1", false},
                             {"NoValue", ";a=", false},
                             {"NoName", ";=1", false},
                             {"TwoEquals", ";a==1", false},
                             {"Colon", ":a", false},
                             {"InnerList", ";a=(1)", false},
                         }),
                         caseName);

INSTANTIATE_TEST_SUITE_P(Numbers, ParametersTest,
                         testing::ValuesIn(std::vector<Case>{
                             {"Zero", ";a=0", true},
                             {"MinusZero", ";a=-0", true},
                             {"LeadingZeros", ";a=000000000000001", true},
                             {"LongestInteger", ";a=-999999999999999", true},
                             {"LongestDecimal", ";a=-123456789012.123", true},
                             {"ShortestDecimal", ";a=1.0", true},
                             {"IntegerTooLong", ";a=1234567890123456", false},
                             {"DecimalIntegerPartTooLong", ";a=1234567890123.1", false},
                             {"FractionTooLong", ";a=1.1234", false},
                             {"NoFraction", ";a=1.", false},
                             {"NoIntegerPart", ";a=.5", false},
                             {"TwoDots", ";a=1.2.3", false},
                             {"MinusAlone", ";a=-", false},
                             {"MinusTwice", ";a=--1", false},
                             {"MinusDot", ";a=-.5", false},
                             {"Plus", ";a=+1", false},
                             {"Exponent", ";a=1e3", false},
                         }),
                         caseName);

INSTANTIATE_TEST_SUITE_P(StringsAndTokens, ParametersTest,
                         testing::ValuesIn(std::vector<Case>{
                             {"String", R"(;a="x")", true},
                             {"EmptyString", R"(;a="")", true},
                             {"StringWithEscapes", R"(;a="\"\\")", true},
                             {"StringWithSemicolon", R"(;a=";b")", true},
                             {"BadEscape", R"(;a="\x")", false},
                             {"OpenString", R"(;a="x)", false},
                             {"StringThenText", R"(;a="x"y)", false},
                             {"Token", ";a=tok", true},
                             {"TokenUpperCase", ";a=Tok", true},
                             {"TokenStar", ";a=*tok", true},
                             {"TokenAllMarks", ";a=t!#$%&'*+-.^_`|~:/9", true},
                             {"TokenThenQuote", ";a=tok\"", false},
                             {"TokenThenEquals", ";a=tok=1", false},
                             {"TokenStartsWithMark", ";a=!tok", false},
                         }),
                         caseName);

INSTANTIATE_TEST_SUITE_P(ByteSequences, ParametersTest,
                         testing::ValuesIn(std::vector<Case>{
                             {"Empty", ";a=::", true},
                             {"Padded", ";a=:aGVsbG8=:", true},
                             {"PaddedTwice", ";a=:aGVsbA==:", true},
                             {"NoPaddingNeeded", ";a=:aGVs:", true},
                             {"PaddingLeftOut", ";a=:aGVsbG8:", true},
                             {"BothPaddingsLeftOut", ";a=:aGVsbA:", true},
                             {"Marks", ";a=:/+Ah:", true},
                             {"OneDigit", ";a=:a:", false},
                             {"OneDigitPadded", ";a=:a===:", false},
                             {"OnlyPadding", ";a=:=:", false},
                             {"OnlyFullPadding", ";a=:====:", false},
                             {"TooMuchPadding", ";a=:aGVs=:", false},
                             {"TooLittlePadding", ";a=:aGVsbA=:", false},
                             {"PaddingInside", ";a=:aGV=bG8=:", false},
                             {"UrlAlphabet", ";a=:_-Ah:", false},
                             {"Space", ";a=:aGV sbG8=:", false},
                             {"NotClosed", ";a=:aGVsbG8=", false},
                             {"ColonAlone", ";a=:", false},
                         }),
                         caseName);

INSTANTIATE_TEST_SUITE_P(BooleansAndDates, ParametersTest,
                         testing::ValuesIn(std::vector<Case>{
                             {"True", ";a=?1", true},
                             {"False", ";a=?0", true},
                             {"Two", ";a=?2", false},
                             {"Letter", ";a=?t", false},
                             {"QuestionMarkAlone", ";a=?", false},
                             {"TwoDigits", ";a=?10", false},
                             {"Date", ";a=@1659578233", true},
                             {"DateBefore1970", ";a=@-1659578233", true},
                             {"DateLongest", ";a=@999999999999999", true},
                             {"DateTooLong", ";a=@1000000000000000", false},
                             {"DateDecimal", ";a=@1659578233.5", false},
                             {"DateDot", ";a=@1.", false},
                             {"AtAlone", ";a=@", false},
                             {"AtMinus", ";a=@-", false},
                             {"DateLetter", ";a=@x", false},
                         }),
                         caseName);

// The UTF-8 cases stand at the ends of the ranges of RFC 3629 §4.
INSTANTIATE_TEST_SUITE_P(DisplayStrings, ParametersTest,
                         testing::ValuesIn(std::vector<Case>{
                             {"Plain", ";a=%\"foo bar\"", true},
                             {"Empty", ";a=%\"\"", true},
                             {"BackslashIsPlain", ";a=%\"\\\"", true},
                             {"TwoBytesLowest", ";a=%\"%c2%80\"", true},
                             {"TwoBytesHighest", ";a=%\"%df%bf\"", true},
                             {"ThreeBytesLowest", ";a=%\"%e0%a0%80\"", true},
                             {"BelowSurrogates", ";a=%\"%ed%9f%bf\"", true},
                             {"AboveSurrogates", ";a=%\"%ee%80%80\"", true},
                             {"ThreeBytesHighest", ";a=%\"%ef%bf%bf\"", true},
                             {"FourBytesLowest", ";a=%\"%f0%90%80%80\"", true},
                             {"FourBytesHighest", ";a=%\"%f4%8f%bf%bf\"", true},
                             {"EscapedAscii", ";a=%\"%00%22%25%7f\"", true},
                             {"SequencesInARow", ";a=%\"%e2%82%ac%c3%bc%f0%9f%98%80x\"", true},
                             {"UpperCaseHex", ";a=%\"%C3%BC\"", false},
                             {"NoHex", ";a=%\"%zz\"", false},
                             {"CutEscape", ";a=%\"%c\"", false},
                             {"HexTooHigh", ";a=%\"%6g\"", false},
                             {"CutEscapeAtEnd", ";a=%\"%", false},
                             {"HalfEscapeAtEnd", ";a=%\"%c", false},
                             {"NotClosed", ";a=%\"foo", false},
                             {"NoQuote", ";a=%foo", false},
                             {"PercentAlone", ";a=%", false},
                             {"LoneContinuation", ";a=%\"%80\"", false},
                             {"Overlong2", ";a=%\"%c1%bf\"", false},
                             {"Overlong3", ";a=%\"%e0%9f%bf\"", false},
                             {"Overlong4", ";a=%\"%f0%8f%bf%bf\"", false},
                             {"Surrogate", ";a=%\"%ed%a0%80\"", false},
                             {"BeyondUnicode", ";a=%\"%f4%90%80%80\"", false},
                             {"FourBytesTooHigh", ";a=%\"%f5%80%80%80\"", false},
                             {"FiveBytes", ";a=%\"%f8%88%80%80%80\"", false},
                             {"CutSequence", ";a=%\"%e2%82\"", false},
                             {"CutSequenceThenText", ";a=%\"%e2%82x\"", false},
                             {"CutSequenceThenSequence", ";a=%\"%e2%82%c3%bc\"", false},
                             {"ControlCharacter", ";a=%\"\x01\"", false},
                             {"RawUtf8", ";a=%\"\xc3\xbc\"", false},
                         }),
                         caseName);

TEST(StringItemTest, ValueIsUnescaped) {
  const Read result = read(R"("a \"b\" \\ c")");
  EXPECT_EQ(result.status, StringItemStatus::Ok);
  EXPECT_EQ(result.value, R"(a "b" \ c)");
}

TEST(StringItemTest, EmptyStringIsAnItem) {
  EXPECT_EQ(read("\"\"").status, StringItemStatus::Ok);
}

TEST(StringItemTest, ACommaAfterTheItemIsAList) {
  EXPECT_EQ(read("\"a\",\"b\"").status, StringItemStatus::List);
  EXPECT_EQ(read("\"a\" ;b").status, StringItemStatus::Malformed);
  EXPECT_EQ(read("\"a\";b=1  , x").status, StringItemStatus::List);
  EXPECT_EQ(read("a,b").status, StringItemStatus::Malformed);
}

TEST(StringItemTest, ARefusedItemHasNoLength) {
  EXPECT_EQ(parseStringItem("\"abc\" x", {}).length, 0);
  EXPECT_EQ(parseStringItem("\"abc\",", {}).length, 0);
  EXPECT_EQ(parseStringItem("\"abc", {}).length, 0);
}

TEST(StringItemTest, AValueLongerThanTheRoomIsCutButCountedWhole) {
  std::array<char, 5> room = {'.', '.', '.', '.', '.'};
  const StringItem item = parseStringItem(R"("a\"cdefg")", std::span(room).first(4));
  EXPECT_EQ(item.status, StringItemStatus::Ok);
  EXPECT_EQ(item.length, 7);
  EXPECT_EQ(std::string_view(room.data(), room.size()), "a\"cd.");
}

TEST(SerializeStringTest, QuotesAndBackslashesAreEscaped) {
  EXPECT_EQ(serializeString(R"(a "b" \ c)"), R"("a \"b\" \\ c")");
  EXPECT_EQ(serializeString(""), "\"\"");
}

TEST(SerializeStringTest, OnlyPrintableAsciiCanBeWritten) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    EXPECT_EQ(serializeString(text).has_value(), byte >= 0x20 && byte <= 0x7e) << byte;
  }
}

}  // namespace
}  // namespace idempotency::key
