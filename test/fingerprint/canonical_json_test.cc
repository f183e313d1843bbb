#include "source/fingerprint/canonical_json.h"

#include <cctype>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "test/fingerprint/canonicalize.h"
#include "test/support/vectors.h"

namespace idempotency::fingerprint {
namespace {

struct Case {
  std::string name;
  std::string text;
  std::string want;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.text;
}

std::string nameOf(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

class CanonicalJsonTest : public testing::TestWithParam<Case> {};

TEST_P(CanonicalJsonTest, GivesWanted) {
  EXPECT_EQ(canonicalize(GetParam().text), GetParam().want);
}

TEST_P(CanonicalJsonTest, IsItsOwnCanonicalForm) {
  EXPECT_EQ(canonicalize(GetParam().want), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Accepted, CanonicalJsonTest,
    testing::Values(
        Case{"Null", "null", "null"}, Case{"True", " true ", "true"},
        // The canonical form is longer than the text, and the text was moved to the front.
        Case{"LongerNumber", "1e3", "1000"}, Case{"LongerNumberAfterSpace", " \n1e3", "1000"},
        Case{"LongerNumberBetweenSpaces", "\t1e3 ", "1000"}, Case{"False", "\tfalse\n", "false"},
        Case{"Zero", "0", "0"}, Case{"EmptyString", "\"\"", "\"\""},
        Case{"EmptyObject", "{}", "{}"}, Case{"EmptyArray", "[ ]", "[]"},
        Case{"EmptyObjectWithSpace", "{ \r\n }", "{}"}, Case{"Array", "[1, 2 ,3]", "[1,2,3]"},
        Case{"Nested", "[[],[{}],[[[]]]]", "[[],[{}],[[[]]]]"},
        Case{"Sorted", R"({"a":1,"b":2})", R"({"a":1,"b":2})"},
        Case{"Unsorted", R"({"b":2,"a":1})", R"({"a":1,"b":2})"},
        Case{"UnsortedWithSpace", R"( { "b" : [ 2 ] , "a" : "x" } )", R"({"a":"x","b":[2]})"},
        Case{"UnsortedInUnsorted",
             R"({"b":{"d":1,"c":{"f":0,"e":[{"h":1,"g":2}]}},"a":{"z":1,"y":2}})",
             R"({"a":{"y":2,"z":1},"b":{"c":{"e":[{"g":2,"h":1}],"f":0},"d":1}})"},
        Case{"UnsortedInSorted", R"({"a":{"d":1,"c":2},"b":3})", R"({"a":{"c":2,"d":1},"b":3})"},
        Case{"SortedInUnsorted", R"({"b":{"c":1,"d":2},"a":3})", R"({"a":3,"b":{"c":1,"d":2}})"},
        Case{"PrefixComesFirst", R"({"aa":1,"a":2,"":3})", R"({"":3,"a":2,"aa":1})"},
        Case{"SpaceSortsBehindTheEnd", R"({"a ":1,"a":2,"a!":3})", R"({"a":2,"a ":1,"a!":3})"},
        Case{
            "LongNames",
            R"({"abcdefghijklmnopqrstuvwxyz1":1,"abcdefghijklmnopqrstuvwxyz":2,"abcdefghijklmnop":3})",
            R"({"abcdefghijklmnop":3,"abcdefghijklmnopqrstuvwxyz":2,"abcdefghijklmnopqrstuvwxyz1":1})"},
        Case{"EscapedNames", R"({"\u0062":1,"a":2})", R"({"a":2,"b":1})"},
        Case{"ControlNamesSortByValue",
             R"({"a":1,"\u001f":2,"\n":3,"\"":4,"!":5,"\\":6,"]":7,"[":8})",
             "{\"\\n\":3,\"\\u001f\":2,\"!\":5,\"\\\"\":4,\"[\":8,\"\\\\\":6,\"]\":7,\"a\":1}"},
        Case{"NamesSortByUtf16", "{\"\xef\xbf\xbd\":1,\"\xf0\x9f\x98\x80\":2,\"\xed\x9f\xbf\":3}",
             "{\"\xed\x9f\xbf\":3,\"\xf0\x9f\x98\x80\":2,\"\xef\xbf\xbd\":1}"},
        Case{"Escapes", R"("\"\\\/\b\f\n\r\t\u0000\u001F\u007f")",
             "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\""},
        Case{"EscapesBecomeShort", R"("\u0022\u005c\u0008\u0009\u000a\u000c\u000d\u002f")",
             R"("\"\\\b\t\n\f\r/")"},
        Case{"EscapedText", R"("\u20ac$\u00E9\uD83D\uDE00")",
             "\"\xe2\x82\xac$\xc3\xa9\xf0\x9f\x98\x80\""},
        Case{"RawText", "\"\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x80\"",
             "\"\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x80\""},
        Case{"NotNormalised", "[\"\xc3\x85\",\"A\xcc\x8a\"]", "[\"\xc3\x85\",\"A\xcc\x8a\"]"},
        Case{"GrowingNumbers", "[1e20,-1E20,1e-6,1E21,-1.5e300]",
             "[100000000000000000000,-100000000000000000000,0.000001,1e+21,-1.5e+300]"},
        Case{"GrowingNumberBehindSpace", "  300083e10", "3000830000000000"},
        Case{"GrowingNumbersInUnsorted", R"({"b":1e20,"a":{"d":-1e2,"c":1e-7}})",
             R"({"a":{"c":1e-7,"d":-100},"b":100000000000000000000})"},
        Case{"ShrinkingNumbers", "[1.0,10.50,-0,-0.0,0e5,100e-2,0.0000001]",
             "[1,10.5,0,0,0,1,1e-7]"},
        Case{"NamesAfterShrinking", R"([1.000,{"c":1,"b\u002f":2,"\u0061":3}])",
             R"([1,{"a":3,"b/":2,"c":1}])"}),
    nameOf);

class RejectedJsonTest : public testing::TestWithParam<Case> {};

TEST_P(RejectedJsonTest, ReportsTheReason) {
  EXPECT_EQ(canonicalize(GetParam().text), "rejected: " + GetParam().want);
}

const std::string Malformed(describe(JsonRejection::Malformed));
const std::string BadUtf8(describe(JsonRejection::BadUtf8));
const std::string LoneSurrogate(describe(JsonRejection::LoneSurrogate));
const std::string DuplicateName(describe(JsonRejection::DuplicateName));
const std::string InexactNumber(describe(JsonRejection::InexactNumber));
const std::string TooDeep(describe(JsonRejection::TooDeep));

std::vector<Case> malformed() {
  std::vector<Case> cases;
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"Empty", ""},
      {"OnlySpace", " \n"},
      {"ByteOrderMark", "\xef\xbb\xbf{}"},
      {"TrailingValue", "1 2"},
      {"TrailingComma", "[1],"},
      {"TrailingZeroByte", std::string("1\0", 2)},
      {"ZeroByteInside", std::string("[\0]", 3)},
      {"ZeroByteInString", std::string("\"\0\"", 3)},
      {"OpenArray", "["},
      {"OpenArrayWithValue", "[1"},
      {"OpenArrayWithComma", "[1,"},
      {"ArrayEndsWithComma", "[1,]"},
      {"ArrayStartsWithComma", "[,1]"},
      {"ArrayWithoutComma", "[1 2]"},
      {"ArrayClosedAsObject", "[1}"},
      {"OpenObject", "{"},
      {"OpenObjectWithName", "{\"a\""},
      {"OpenObjectWithColon", "{\"a\":"},
      {"OpenObjectWithValue", "{\"a\":1"},
      {"ObjectEndsWithComma", "{\"a\":1,}"},
      {"ObjectStartsWithComma", "{,\"a\":1}"},
      {"ObjectWithoutColon", "{\"a\" 1}"},
      {"ObjectWithoutValue", "{\"a\":}"},
      {"ObjectWithoutComma", "{\"a\":1 \"b\":2}"},
      {"ObjectWithBareName", "{a:1}"},
      {"ObjectWithNumberAsName", "{1:1}"},
      {"ObjectClosedAsArray", "{\"a\":1]"},
      {"OpenString", "\"abc"},
      {"OpenStringOf16", "\"abcdefghijklmnop"},
      {"OpenStringWithBackslash", "\"abc\\"},
      {"OpenStringWithQuote", "\"abc\\\""},
      {"SingleQuotes", "'a'"},
      {"NewlineInString", "\"a\nb\""},
      {"TabInString", "\"a\tb\""},
      {"UnknownEscape", "\"\\x41\""},
      {"CapitalEscape", "\"\\N\""},
      {"EscapeOfThreeDigits", "\"\\u123\""},
      {"EscapeOfNoDigits", "\"\\uzzzz\""},
      {"EscapeAtEnd", "\"\\u12"},
      {"CapitalLiteral", "True"},
      {"ShortLiteral", "tru"},
      {"LongLiteral", "nulll"},
      {"NotANumber", "NaN"},
      {"Infinity", "-Infinity"},
      {"LeadingZero", "01"},
      {"LeadingZeroNegative", "-01"},
      {"LeadingPlus", "+1"},
      {"LeadingPoint", ".5"},
      {"TrailingPoint", "1."},
      {"PointBeforeExponent", "1.e5"},
      {"OnlyMinus", "-"},
      {"MinusBeforeLetter", "-a"},
      {"OpenExponent", "1e"},
      {"OpenSignedExponent", "1e+"},
      {"FractionalExponent", "1e1.5"},
      {"Hexadecimal", "0x10"},
      {"Comment", "[1/*one*/]"},
      {"FormFeedIsNoSpace", "[1,\f2]"},
      {"NoBreakSpace", "[1,\xc2\xa0\x32]"},
  };
  for (const auto& [name, text] : texts) {
    cases.push_back({name, text, Malformed});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Malformed, RejectedJsonTest, testing::ValuesIn(malformed()), nameOf);

INSTANTIATE_TEST_SUITE_P(
    Text, RejectedJsonTest,
    testing::Values(Case{"LoneContinuation", "\"\x80\"", BadUtf8},
                    Case{"Truncated", "\"\xe2\x82\"", BadUtf8},
                    Case{"TruncatedAtEnd", "\"\xf0\x9f\x98", BadUtf8},
                    Case{"Overlong", "\"\xc0\xaf\"", BadUtf8},
                    Case{"OverlongOfThree", "\"\xe0\x9f\xbf\"", BadUtf8},
                    Case{"OverlongOfFour", "\"\xf0\x8f\xbf\xbf\"", BadUtf8},
                    Case{"Surrogate", "\"\xed\xa0\x80\"", BadUtf8},
                    Case{"BeyondUnicode", "\"\xf4\x90\x80\x80\"", BadUtf8},
                    Case{"Latin1", "\"caf\xe9\"", BadUtf8}, Case{"FF", "\"\xff\"", BadUtf8},
                    Case{"InName", "{\"\x80\":1}", BadUtf8},
                    Case{"EscapedHighAlone", R"("\ud800")", LoneSurrogate},
                    Case{"EscapedHighBeforeText", R"("\udbffabc")", LoneSurrogate},
                    Case{"EscapedHighTwice", R"("\ud800\ud800")", LoneSurrogate},
                    Case{"EscapedHighBeforeOther", R"("\ud800\u0041")", LoneSurrogate},
                    Case{"EscapedHighBeforeNewline", R"("\ud800\n")", LoneSurrogate},
                    Case{"EscapedLowAlone", R"("\udc00")", LoneSurrogate},
                    Case{"EscapedLowBeforeHigh", R"("\udc00\ud800")", LoneSurrogate},
                    Case{"EscapedInName", R"({"\udfff":1})", LoneSurrogate}),
    nameOf);

INSTANTIATE_TEST_SUITE_P(
    Meaning, RejectedJsonTest,
    testing::Values(Case{"DuplicateNames", R"({"a":1,"a":1})", DuplicateName},
                    Case{"DuplicateNamesApart", R"({"a":1,"b":2,"c":3,"a":4})", DuplicateName},
                    Case{"DuplicateEmptyNames", R"({"":1,"":2})", DuplicateName},
                    Case{"DuplicateNamesByEscape", R"({"a":1,"\u0061":2})", DuplicateName},
                    Case{"DuplicateNamesWithQuote", R"({"\"":1,"z":0,"\u0022":2})", DuplicateName},
                    Case{"DuplicateNamesDeep", R"([{"x":{"b":1,"a":1,"b":2}}])", DuplicateName},
                    Case{"DuplicateLongNames",
                         R"({"abcdefghijklmnopqrstuvwxyz":1,"b":2,"abcdefghijklmnopqrstuvwxyz":3})",
                         DuplicateName},
                    Case{"DuplicateNamesOfSixteen",
                         R"({"abcdefghijklmnop":1,"b":2,"abcdefghijklmnop":3})", DuplicateName},
                    Case{"TooManyDigits", "9007199254740993", InexactNumber},
                    Case{"TooLarge", "[1e400]", InexactNumber},
                    Case{"TooLargeNegative", "-1e400", InexactNumber},
                    Case{"TooSmall", "1e-400", InexactNumber},
                    Case{"TooPrecise", "0.1000000000000000055", InexactNumber},
                    Case{"InObject", R"({"b":1,"amount":9007199254740993})", InexactNumber}),
    nameOf);

TEST(CanonicalJsonDepthTest, NestingUpToTheLimitIsRead) {
  for (const auto& [open, close] :
       {std::pair<std::string, std::string>{"[", "]"}, {"{\"a\":", "}"}}) {
    std::string text = open == "[" ? "" : "1";
    for (size_t i = 0; i < MaxJsonDepth; ++i) {
      text = open + text + close;
    }
    EXPECT_EQ(canonicalize(text), text);
    EXPECT_EQ(canonicalize(open + text + close), "rejected: " + TooDeep);
  }
}

TEST(CanonicalJsonDepthTest, EndlessNestingIsRejectedWithoutRecursion) {
  EXPECT_EQ(canonicalize(std::string(1 << 20, '[')), "rejected: " + TooDeep);
  std::string objects;
  for (int i = 0; i < 1 << 18; ++i) {
    objects += "{\"\":";
  }
  EXPECT_EQ(canonicalize(objects), "rejected: " + TooDeep);
}

TEST(CanonicalJsonDepthTest, SiblingsDoNotAddToTheDepth) {
  std::string text = "[";
  for (size_t i = 0; i < 3 * MaxJsonDepth; ++i) {
    text += i == 0 ? "[{}]" : ",[{}]";
  }
  text += "]";
  EXPECT_EQ(canonicalize(text), text);
}

TEST(CanonicalJsonSizeTest, TextsBeyondTheLimitAreRejectedBeforeTheyAreRead) {
  const std::string spaces(MaxJsonSize, ' ');
  const std::vector<std::string_view> body = {spaces, "1"};
  CanonicalJson json;
  EXPECT_EQ(json.read(body), JsonRejection::TooLarge);
}

TEST(CanonicalJsonSizeTest, TextsAroundTheInlineSizeAreRead) {
  for (size_t size = CanonicalJson::InlineSize - 3; size < CanonicalJson::InlineSize + 3; ++size) {
    const std::string text = '"' + std::string(size - 2, 'x') + '"';
    EXPECT_EQ(canonicalize(text), text);
  }
}

TEST(CanonicalJsonSliceTest, SlicesMayBeCutAnywhere) {
  const std::string text =
      "{ \"b\\u0062\" : [1e20, \"\xf0\x9f\x98\x80\\ud83d\\ude00\", -12.50, true], \"a\" : null }";
  const std::string want = canonicalize(text);
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      const std::string_view view = text;
      const std::vector<std::string_view> body = {
          view.substr(0, first), view.substr(first, second - first), view.substr(second)};
      CanonicalJson json;
      ASSERT_EQ(json.read(body), JsonRejection::None);
      ASSERT_EQ(written(json, json.whole()), want);
    }
  }
}

TEST(CanonicalJsonVectorTest, PublishedInputsGivePublishedOutputs) {
  for (const std::filesystem::path& input : vectorFiles("jcs/input")) {
    SCOPED_TRACE(input.filename());
    const std::string want = readVector(vectorFolder("jcs/output") / input.filename());
    EXPECT_EQ(canonicalize(readVector(input), NumberRule::Rounded), want);
    EXPECT_EQ(canonicalize(want), want);
  }
}

// values.json has 333333333.33333329, which a double rounds.
TEST(CanonicalJsonVectorTest, OnlyTheInputWithARoundedNumberIsRejected) {
  for (const std::filesystem::path& input : vectorFiles("jcs/input")) {
    SCOPED_TRACE(input.filename());
    const bool rejected = canonicalize(readVector(input)) == "rejected: " + InexactNumber;
    EXPECT_EQ(rejected, input.filename() == "values.json");
  }
}

TEST(CanonicalJsonVectorTest, PublishedInputsGivePublishedHex) {
  for (const std::filesystem::path& input : vectorFiles("jcs/input")) {
    SCOPED_TRACE(input.filename());
    std::filesystem::path hex_file = vectorFolder("jcs/outhex") / input.filename();
    std::string want;
    for (const char c : readVector(hex_file.replace_extension("txt"))) {
      if (std::isxdigit(static_cast<unsigned char>(c)) != 0) {
        want += c;
      }
    }
    std::string hex;
    for (const char c : canonicalize(readVector(input), NumberRule::Rounded)) {
      constexpr std::string_view Digits = "0123456789abcdef";
      hex += Digits[static_cast<unsigned char>(c) >> 4];
      hex += Digits[static_cast<unsigned char>(c) & 15];
    }
    EXPECT_EQ(hex, want);
  }
}

JsonPointerSet pointersOf(const std::vector<std::string>& texts) {
  std::vector<JsonPointer> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(*JsonPointer::parse(text));
  }
  return JsonPointerSet(pointers);
}

struct PointerCase {
  std::string name;
  std::string text;
  std::vector<std::string> pointers;
  std::string want;
};

void PrintTo(const PointerCase& c, std::ostream* out) {
  *out << c.text;
}

std::string pointerNameOf(const testing::TestParamInfo<PointerCase>& info) {
  return info.param.name;
}

class ExcludeTest : public testing::TestWithParam<PointerCase> {};

TEST_P(ExcludeTest, LeavesOut) {
  const JsonPointerSet pointers = pointersOf(GetParam().pointers);
  const std::string_view text = GetParam().text;
  CanonicalJson json;
  ASSERT_EQ(json.readExcluding({&text, 1}, pointers), JsonRejection::None);
  EXPECT_EQ(written(json, json.whole()), GetParam().want);
  EXPECT_EQ(json.size(json.whole()), GetParam().want.size());
}

INSTANTIATE_TEST_SUITE_P(
    , ExcludeTest,
    testing::Values(
        PointerCase{"First", R"({"a":1,"b":2,"c":3})", {"/a"}, R"({"b":2,"c":3})"},
        PointerCase{"Middle", R"({"a":1,"b":2,"c":3})", {"/b"}, R"({"a":1,"c":3})"},
        PointerCase{"Last", R"({"a":1,"b":2,"c":3})", {"/c"}, R"({"a":1,"b":2})"},
        PointerCase{"Unsorted", R"({"c":1,"b":2,"a":3})", {"/b"}, R"({"a":3,"c":1})"},
        PointerCase{"UnsortedLast", R"({"c":1,"b":2,"a":3} )", {"/a"}, R"({"b":2,"c":1})"},
        PointerCase{"BeforeMore", R"([{"b":1,"a":2},3])", {"/0/a"}, R"([{"b":1},3])"},
        PointerCase{"All", R"([{"a":1,"b":2},3])", {"/0/a", "/0/b"}, R"([{},3])"},
        PointerCase{"Only", R"({"a":1})", {"/a"}, R"({})"},
        PointerCase{"NotThere", R"({"a":1})", {"/b", "/a/x", "/0"}, R"({"a":1})"},
        PointerCase{"Nested", R"({"a":{"t":1,"x":2},"t":3})", {"/a/t"}, R"({"a":{"x":2},"t":3})"},
        PointerCase{
            "NestedInExcluded", R"({"a":{"t":1,"x":2},"b":3})", {"/a", "/a/t"}, R"({"b":3})"},
        PointerCase{"WithUnsortedInside",
                    R"({"b":{"d":1,"c":2},"a":{"f":1,"e":2}})",
                    {"/b"},
                    R"({"a":{"e":2,"f":1}})"},
        PointerCase{"WithGrowingNumber",
                    R"({"a":1e20,"b":1e20})",
                    {"/a"},
                    R"({"b":100000000000000000000})"},
        PointerCase{"AfterShrinking",
                    R"({ "x" : 1.00 , "a" : [ 1 , 2 ] , "b" : 3 })",
                    {"/a"},
                    R"({"b":3,"x":1})"},
        PointerCase{"FirstElement", "[1,2,3]", {"/0"}, "[2,3]"},
        PointerCase{"MiddleElement", "[1 , 2 , 3]", {"/1"}, "[1,3]"},
        PointerCase{"LastElement", "[1,2,3]", {"/2"}, "[1,2]"},
        PointerCase{"FirstTwoElements", "[1,2,3]", {"/0", "/1"}, "[3]"},
        PointerCase{"LastTwoElements", "[1,2,3]", {"/1", "/2"}, "[1]"},
        PointerCase{"OuterElements", "[ 1, 2, 3 ]", {"/0", "/2"}, "[2]"},
        PointerCase{"AllElements", "[1,2]", {"/0", "/1"}, "[]"},
        PointerCase{
            "UnsortedElement", R"([{"b":1,"a":2},{"d":1,"c":2}])", {"/0"}, R"([{"c":2,"d":1}])"},
        PointerCase{"ElementLikeName", R"({"0":1,"1":2})", {"/0"}, R"({"1":2})"},
        PointerCase{"NoIndexWithLeadingZero", "[1,2]", {"/00", "/-", "/01"}, "[1,2]"},
        PointerCase{"EscapedName",
                    R"({"a\/b":1,"m~n":2,"\n":3,"q\"":4,"k":5})",
                    {"/a~1b", "/m~0n", "/\n", "/q\""},
                    R"({"k":5})"},
        PointerCase{"EmptyName", R"({"":1,"a":2})", {"/"}, R"({"a":2})"},
        PointerCase{"WholeDocument", R"({"b":1e20,"a":2})", {""}, ""}),
    pointerNameOf);

TEST(ExcludeRejectionTest, DuplicateNamesAreRejectedEvenIfTheyAreExcluded) {
  for (const std::string_view text :
       {R"({"a":1,"a":2})", R"({"a":1,"b":{"c":1,"c":2}})", R"({"b":{"c":9007199254740993}})"}) {
    const JsonPointerSet pointers = pointersOf({"/a", "/b"});
    CanonicalJson json;
    EXPECT_NE(json.readExcluding({&text, 1}, pointers), JsonRejection::None) << text;
  }
}

class SelectTest : public testing::TestWithParam<PointerCase> {};

TEST_P(SelectTest, FindsValues) {
  const JsonPointerSet pointers = pointersOf(GetParam().pointers);
  const std::string_view text = GetParam().text;
  CanonicalJson json;
  ASSERT_EQ(json.readSelecting({&text, 1}, pointers), JsonRejection::None);
  std::string got;
  for (size_t i = 0; i < pointers.size(); ++i) {
    const std::optional<JsonSpan> value = json.selected(i);
    const std::string canonical = value.has_value() ? written(json, *value) : "absent";
    if (value.has_value()) {
      EXPECT_EQ(json.size(*value), canonical.size());
    }
    got += (pointers.begin() + static_cast<ptrdiff_t>(i))->text() + "=" + canonical + " ";
  }
  EXPECT_EQ(got, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    , SelectTest,
    testing::Values(
        PointerCase{"Member", R"({"a":1,"b":2})", {"/b"}, "/b=2 "},
        PointerCase{
            "Several", R"({"c":"x","b":[1],"a":{}})", {"/c", "/a", "/b"}, "/a={} /b=[1] /c=\"x\" "},
        PointerCase{"AbsentIsNotNull", R"({"a":null})", {"/a", "/b"}, "/a=null /b=absent "},
        PointerCase{"Deep", R"({"z":1,"a":{"y":[0,{"x":true}]}})", {"/a/y/1/x"}, "/a/y/1/x=true "},
        PointerCase{"InsideOfSelected",
                    R"({"b":{"d":1,"c":2},"a":1})",
                    {"/b", "/b/c"},
                    "/b={\"c\":2,\"d\":1} /b/c=2 "},
        PointerCase{"Unsorted",
                    R"({ "b" : { "d" : 1 , "c" : 2 } , "a" : 1 })",
                    {"/b"},
                    "/b={\"c\":2,\"d\":1} "},
        PointerCase{"GrowingNumber",
                    R"({"b":1e20,"a":[1e20]})",
                    {"/a", "/b"},
                    "/a=[100000000000000000000] /b=100000000000000000000 "},
        PointerCase{"WholeDocument", R"({"b":1,"a":2})", {""}, "={\"a\":2,\"b\":1} "},
        PointerCase{"Scalar", "5", {"", "/a", "/0"}, "=5 /0=absent /a=absent "},
        PointerCase{"Elements",
                    "[10,[20,21],30]",
                    {"/0", "/1/1", "/2", "/3", "/-"},
                    "/-=absent /0=10 /1/1=21 /2=30 /3=absent "},
        PointerCase{"NameByEscape", R"({"\u0061":1})", {"/a"}, "/a=1 "},
        PointerCase{"NotIntoStrings", R"({"a":"xyz"})", {"/a/0"}, "/a/0=absent "}),
    pointerNameOf);

}  // namespace
}  // namespace idempotency::fingerprint
