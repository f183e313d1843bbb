#include "source/fingerprint/media_type.h"

#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

std::string normal(std::string_view content_type) {
  std::string scratch;
  return std::string(normalMediaType(content_type, scratch));
}

struct Case {
  std::string name;
  std::string content_type;
  std::string want;
  bool json;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.content_type;
}

class MediaTypeTest : public testing::TestWithParam<Case> {};

TEST_P(MediaTypeTest, NormalForm) {
  EXPECT_EQ(normal(GetParam().content_type), GetParam().want);
}

TEST_P(MediaTypeTest, NormalFormStays) {
  EXPECT_EQ(normal(GetParam().want), GetParam().want);
}

TEST_P(MediaTypeTest, SaysJsonOrNot) {
  EXPECT_EQ(isJsonMediaType(GetParam().content_type), GetParam().json);
  EXPECT_EQ(isJsonMediaType(GetParam().want), GetParam().json);
}

INSTANTIATE_TEST_SUITE_P(
    , MediaTypeTest,
    testing::Values(
        Case{"Json", "application/json", "application/json", true},
        Case{"JsonInCapitals", "Application/JSON", "application/json", true},
        Case{"JsonWithSpaces", " \tapplication/json ", "application/json", true},
        Case{"JsonUtf8", "application/json; charset=utf-8", "application/json", true},
        Case{"JsonUtf8InCapitals", "application/json;Charset=UTF-8", "application/json", true},
        Case{"JsonUtf8Quoted", "application/json; charset=\"utf-8\"", "application/json", true},
        Case{"JsonOtherCharset", "application/json; charset=latin1",
             "application/json;charset=latin1", true},
        Case{"JsonCharsetThenVersion", "application/json ; charset=utf-8 ; v=2",
             "application/json;v=2", true},
        Case{"EmptyParameters", "application/json;; ;", "application/json", true},
        Case{"Suffix", "application/vnd.api+json", "application/vnd.api+json", true},
        Case{"SuffixInCapitals", "application/Problem+JSON", "application/problem+json", true},
        Case{"SuffixOfOtherType", "model/gltf+json", "model/gltf+json", true},
        Case{"SuffixWithParameter", "application/ld+json; Profile=\"https://A.example/B;c\"",
             "application/ld+json;profile=\"https://A.example/B;c\"", true},
        Case{"QuotedPairInParameter", "application/json; a=\"x\\\";Y\" ; B=c",
             "application/json;a=\"x\\\";Y\";b=c", true},
        Case{"OpenQuote", "application/json; a=\"x; b", "application/json;a=\"x; b", true},
        Case{"OpenQuotedPair", "application/json; a=\"x\\", "application/json;a=\"x\\", true},
        Case{"Text", "Text/Plain; Charset=ISO-8859-1", "text/plain;charset=ISO-8859-1", false},
        Case{"TextKeepsUtf8", "text/plain; charset=utf-8", "text/plain;charset=utf-8", false},
        Case{"TextJson", "text/json", "text/json", false},
        Case{"JsonSequence", "application/json-seq", "application/json-seq", false},
        Case{"NdJson", "application/x-ndjson", "application/x-ndjson", false},
        Case{"OnlySuffix", "application/+json", "application/+json", false},
        Case{"NoSubtype", "application/", "application/", false},
        Case{"NoType", "/json", "/json", false}, Case{"NoSlash", "json", "json", false},
        Case{"TwoSlashes", "application/json/json", "application/json/json", false},
        Case{"SpaceInside", " application/ JSON ", "application/ JSON", false},
        Case{"TwoTypes", "application/json, text/plain", "application/json, text/plain", false},
        Case{"Boundary", "multipart/form-data; boundary=XyZ", "multipart/form-data;boundary=XyZ",
             false},
        Case{"Empty", "", "", false}, Case{"OnlySpaces", "  ", "", false},
        Case{"OnlySemicolon", ";", ";", false}),
    [](const auto& info) { return info.param.name; });

TEST(MediaTypeTokenTest, ZeroByteIsNoTokenCharacter) {
  EXPECT_FALSE(isJsonMediaType(std::string_view("application/x\0+json", 19)));
}

}  // namespace
}  // namespace idempotency::fingerprint
