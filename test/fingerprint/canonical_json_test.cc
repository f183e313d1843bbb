#include "source/fingerprint/canonical_json.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "test/fingerprint/canonicalize.h"
#include "test/support/vectors.h"

namespace idempotency {
namespace {

struct Case {
  std::string name;
  std::string text;
  std::string want;
};

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
        Case{"False", "\tfalse\n", "false"}, Case{"Zero", "0", "0"},
        Case{"EmptyString", "\"\"", "\"\""}, Case{"EmptyObject", "{}", "{}"},
        Case{"EmptyArray", "[ ]", "[]"}, Case{"EmptyObjectWithSpace", "{ \r\n }", "{}"},
        Case{"Array", "[1, 2 ,3]", "[1,2,3]"},
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
        Case{"GrowingNumbersInUnsorted", R"({"b":1e20,"a":{"d":-1e2,"c":1e-7}})",
             R"({"a":{"c":1e-7,"d":-100},"b":100000000000000000000})"},
        Case{"ShrinkingNumbers", "[1.0,10.50,-0,-0.0,0e5,100e-2,0.0000001]",
             "[1,10.5,0,0,0,1,1e-7]"},
        Case{"NamesAfterShrinking", R"([1.000,{"c":1,"b\u002f":2,"\u0061":3}])",
             R"([1,{"a":3,"b/":2,"c":1}])"}),
    nameOf);

}  // namespace
}  // namespace idempotency
