#include "source/fingerprint/fingerprint.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency {
namespace {

using testing::ElementsAre;

// A request that owns its bytes.
struct Request {
  std::string method = "POST";
  std::string path = "/v1/payments";
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string principal = "";
  std::vector<std::string> body = {R"({"amount":100,"currency":"EUR"})"};
};

Request withBody(std::string body) {
  return {.body = {std::move(body)}};
}
Request withPath(std::string path) {
  return {.path = std::move(path)};
}

template <class Use>
auto use(const Request& request, const Use& function) {
  const std::vector<std::string_view> body(request.body.begin(), request.body.end());
  std::vector<RequestHeader> headers;
  for (const auto& [name, value] : request.headers) {
    headers.push_back({name, value});
  }
  return function(RequestParts{.method = request.method,
                               .path = request.path,
                               .content_type = request.content_type,
                               .headers = headers,
                               .principal = request.principal,
                               .body = body});
}

FingerprintResult resultOf(const Request& request, const FingerprintRules& rules = {}) {
  return use(request, [&rules](const RequestParts& parts) {
    return computeFingerprint(parts, rules).value();
  });
}

Fingerprint fingerprintOf(const Request& request, const FingerprintRules& rules = {}) {
  return resultOf(request, rules).fingerprint;
}

FingerprintExplanation explain(const Request& request, const FingerprintRules& rules = {}) {
  return use(request, [&rules](const RequestParts& parts) {
    return explainFingerprint(parts, rules).value();
  });
}

std::string hex(const Fingerprint& fingerprint) {
  std::string text;
  for (const uint8_t byte : fingerprint) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

JsonPointerSet pointers(const std::vector<std::string>& texts) {
  std::vector<JsonPointer> parsed;
  for (const std::string& text : texts) {
    parsed.push_back(*JsonPointer::parse(text));
  }
  return JsonPointerSet(parsed);
}

FingerprintRules selecting(const std::vector<std::string>& texts) {
  return {.mode = FingerprintMode::Selected, .pointers = pointers(texts)};
}

FingerprintRules excluding(const std::vector<std::string>& texts) {
  return {.exclude_pointers = pointers(texts)};
}

const FingerprintRules Raw = {.mode = FingerprintMode::Raw};
const FingerprintRules None = {.mode = FingerprintMode::None};

struct PairCase {
  std::string name;
  Request a;
  Request b;
  FingerprintRules rules = {};
};

void PrintTo(const PairCase& c, std::ostream* out) {
  *out << c.name;
}
std::string nameOf(const testing::TestParamInfo<PairCase>& info) {
  return info.param.name;
}

class SameRequestTest : public testing::TestWithParam<PairCase> {};

TEST_P(SameRequestTest, HasTheSameFingerprint) {
  EXPECT_EQ(fingerprintOf(GetParam().a, GetParam().rules),
            fingerprintOf(GetParam().b, GetParam().rules));
}

INSTANTIATE_TEST_SUITE_P(
    , SameRequestTest,
    testing::Values(
        PairCase{"Identical", {}, {}},
        PairCase{"MembersInOtherOrder", withBody(R"({"a":1,"b":2})"), withBody(R"({"b":2,"a":1})")},
        PairCase{"OtherSpace", withBody(R"({"a":1})"), withBody("\n{ \"a\" : 1 }\n")},
        PairCase{"OtherEscapes", withBody(R"(["\u0041\/"])"), withBody(R"(["A/"])")},
        PairCase{"OtherNumberText", withBody("[1.0,1e2,0.10]"), withBody("[1,100,0.1]")},
        PairCase{"OtherSlices", {.body = {"[1,", "", "2]"}}, {.body = {"[1", ",2]"}}},
        PairCase{"QueryInOtherOrder", withPath("/p?b=2&a=1"), withPath("/p?a=1&b=2")},
        PairCase{"ContentTypeInOtherSpelling",
                 {.content_type = "application/json"},
                 {.content_type = "Application/JSON; charset=UTF-8"}},
        PairCase{
            "HeaderThatDoesNotCount", {.headers = {{"x-a", "1"}}}, {.headers = {{"x-a", "2"}}}},
        PairCase{"HeadersInOtherOrder",
                 {.headers = {{"x-a", "1"}, {"x-b", "2"}}},
                 {.headers = {{"x-b", "2"}, {"x-a", "1"}}},
                 {.headers = {"x-a", "x-b"}}},
        PairCase{"PrincipalThatDoesNotCount", {.principal = "alice"}, {.principal = "bob"}},
        PairCase{"BytesInOtherSlices",
                 {.content_type = "text/plain", .body = {"ab", "c"}},
                 {.content_type = "text/plain", .body = {"a", "bc"}}},
        PairCase{"UnselectedValue", withBody(R"({"a":1,"b":2})"), withBody(R"({"b":3,"a":1.0})"),
                 selecting({"/a"})},
        PairCase{"ExcludedValue", withBody(R"({"a":1,"t":2})"), withBody(R"({"t":[3],"a":1})"),
                 excluding({"/t"})},
        PairCase{"ExcludedValueAbsent", withBody(R"({"a":1,"t":2})"), withBody(R"({"a":1})"),
                 excluding({"/t"})},
        PairCase{
            "AnythingInModeNone",
            {},
            {.method = "PUT", .path = "/x?y", .content_type = "", .principal = "z", .body = {}},
            None}),
    nameOf);

class OtherRequestTest : public testing::TestWithParam<PairCase> {};

TEST_P(OtherRequestTest, HasAnotherFingerprint) {
  EXPECT_NE(fingerprintOf(GetParam().a, GetParam().rules),
            fingerprintOf(GetParam().b, GetParam().rules));
}

INSTANTIATE_TEST_SUITE_P(
    , OtherRequestTest,
    testing::Values(
        PairCase{"Method", {.method = "POST"}, {.method = "PATCH"}},
        PairCase{"MethodInOtherCase", {.method = "POST"}, {.method = "post"}},
        PairCase{"Path", withPath("/a"), withPath("/b")},
        PairCase{"PathWithSlash", withPath("/a"), withPath("/a/")},
        PairCase{"PathEncoded", withPath("/a"), withPath("/%61")},
        PairCase{"Query", withPath("/a?b=1"), withPath("/a?b=2")},
        PairCase{"QueryEmptyOrNone", withPath("/a"), withPath("/a?")},
        PairCase{"QueryDuplicate", withPath("/a?b=1"), withPath("/a?b=1&b=1")},
        PairCase{"QueryOrderOfOneName", withPath("/a?b=1&b=2"), withPath("/a?b=2&b=1")},
        PairCase{"QueryNotPath", withPath("/a?b"), withPath("/a%3Fb")},
        PairCase{"MediaType",
                 {.content_type = "application/json"},
                 {.content_type = "application/vnd.api+json"}},
        PairCase{"MediaTypeParameter",
                 {.content_type = "application/json;v=1"},
                 {.content_type = "application/json;v=2"}},
        PairCase{"MediaTypeNone", {.content_type = "text/plain"}, {.content_type = ""}},
        PairCase{"HeaderValue",
                 {.headers = {{"x-a", "1"}}},
                 {.headers = {{"x-a", "2"}}},
                 {.headers = {"x-a"}}},
        PairCase{"HeaderEmptyOrNone", {.headers = {{"x-a", ""}}}, {}, {.headers = {"x-a"}}},
        PairCase{"HeaderTwice",
                 {.headers = {{"x-a", "1"}}},
                 {.headers = {{"x-a", "1"}, {"x-a", "1"}}},
                 {.headers = {"x-a"}}},
        PairCase{"HeaderLinesOrOneList",
                 {.headers = {{"x-a", "1, 2"}}},
                 {.headers = {{"x-a", "1"}, {"x-a", "2"}}},
                 {.headers = {"x-a"}}},
        PairCase{"HeaderValueOrder",
                 {.headers = {{"x-a", "1"}, {"x-a", "2"}}},
                 {.headers = {{"x-a", "2"}, {"x-a", "1"}}},
                 {.headers = {"x-a"}}},
        PairCase{"HeaderNameSwapped",
                 {.headers = {{"x-a", "1"}}},
                 {.headers = {{"x-b", "1"}}},
                 {.headers = {"x-a", "x-b"}}},
        PairCase{"Principal", {.principal = "alice"}, {.principal = "bob"}, {.principal = true}},
        PairCase{"Body", withBody("[1]"), withBody("[2]")},
        PairCase{"BodyEmptyOrNot", withBody(""), withBody("null")},
        PairCase{"BodyArrayOrder", withBody("[1,2]"), withBody("[2,1]")},
        PairCase{"BodyNumberOrString", withBody("1"), withBody("\"1\"")},
        PairCase{"BodyMemberNullOrAbsent", withBody(R"({"a":null})"), withBody("{}")},
        PairCase{"BodyNotNormalisedText", withBody("\"\xc3\x85\""), withBody("\"A\xcc\x8a\"")},
        PairCase{"AmountsThatADoubleMixesUp", withBody("9007199254740993"),
                 withBody("9007199254740992")},
        PairCase{"AmountsThatADoubleMixesUpTwice", withBody("9007199254740993"),
                 withBody("9007199254740993.0")},
        PairCase{"RawSpace", withBody("[1]"), withBody("[1] "), Raw},
        PairCase{"RawMembersInOtherOrder", withBody(R"({"a":1,"b":2})"),
                 withBody(R"({"b":2,"a":1})"), Raw},
        PairCase{"TextThatLooksLikeJson",
                 {.content_type = "text/plain", .body = {"[1]"}},
                 {.content_type = "text/plain", .body = {"[1] "}}},
        PairCase{"RejectedJson", withBody(R"({"a":1,"a":2})"), withBody(R"({"a":2})")},
        PairCase{"RejectedJsonSpace", withBody(R"({"a":1,"a":2})"), withBody(R"({"a":1, "a":2})")},
        PairCase{"SelectedValue", withBody(R"({"a":1})"), withBody(R"({"a":2})"),
                 selecting({"/a"})},
        PairCase{"SelectedAbsentOrNull", withBody(R"({"a":null})"), withBody("{}"),
                 selecting({"/a"})},
        PairCase{"SelectedAbsentOrWord", withBody(R"({"a":"absent"})"), withBody("{}"),
                 selecting({"/a"})},
        PairCase{"SelectedElsewhere", withBody(R"({"a":1})"), withBody(R"({"b":1})"),
                 selecting({"/a", "/b"})},
        PairCase{"SelectedOfRejected", withBody(R"({"a":1,"b":1,"b":2})"),
                 withBody(R"({"a":1,"b":1,"b":3})"), selecting({"/a"})},
        PairCase{"SelectedOfText",
                 {.content_type = "text/plain", .body = {R"({"a":1,"b":1})"}},
                 {.content_type = "text/plain", .body = {R"({"a":1,"b":2})"}},
                 selecting({"/a"})},
        PairCase{"SelectedButOtherPath", withPath("/a"), withPath("/b"), selecting({"/amount"})},
        PairCase{"NotExcludedValue", withBody(R"({"a":1,"t":2})"), withBody(R"({"a":2,"t":2})"),
                 excluding({"/t"})}),
    nameOf);

// Raw bytes that are the canonical form of another body, in any way that a body can be taken.
TEST(FingerprintTest, BodiesOfDifferentFormsNeverLookAlike) {
  // As text the bytes of the canonical form are not the JSON body that has this form.
  const Request json = withBody(R"({"a":1,"a":2})");
  const Request text = {.content_type = "application/json", .body = json.body};
  EXPECT_NE(fingerprintOf(json), fingerprintOf(text, Raw));
  // A body that selects to the same bytes.
  EXPECT_NE(fingerprintOf(withBody("[1]")), fingerprintOf(withBody("[1]"), selecting({""})));
  EXPECT_NE(fingerprintOf(withBody("[1]")), fingerprintOf(withBody("[1]"), Raw));
  EXPECT_NE(fingerprintOf(withBody("1"), excluding({""})), fingerprintOf(withBody("")));
}

TEST(FingerprintTest, VersionComesFirst) {
  EXPECT_EQ(fingerprintOf({})[0], FingerprintVersion);
  EXPECT_EQ(fingerprintOf({}, None)[0], FingerprintVersion);
}

TEST(FingerprintTest, UnknownVersionsAreRefused) {
  for (const uint8_t version : {0, 2, 255}) {
    EXPECT_EQ(computeFingerprint({}, {}, version), std::nullopt);
    EXPECT_EQ(explainFingerprint({}, {}, version), std::nullopt);
  }
}

struct FormCase {
  std::string name;
  Request request;
  FingerprintRules rules;
  BodyForm form;
  JsonRejection rejection = JsonRejection::None;
};

void PrintTo(const FormCase& c, std::ostream* out) {
  *out << c.name;
}

class BodyFormTest : public testing::TestWithParam<FormCase> {};

TEST_P(BodyFormTest, IsTold) {
  const FingerprintResult result = resultOf(GetParam().request, GetParam().rules);
  EXPECT_EQ(result.body_form, GetParam().form);
  EXPECT_EQ(result.rejection, GetParam().rejection);
}

INSTANTIATE_TEST_SUITE_P(
    , BodyFormTest,
    testing::Values(
        FormCase{"Json", withBody("{}"), {}, BodyForm::CanonicalJson},
        FormCase{"JsonSuffix",
                 {.content_type = "application/problem+JSON ;a=b", .body = {"{}"}},
                 {},
                 BodyForm::CanonicalJson},
        FormCase{"Text", {.content_type = "text/plain", .body = {"{}"}}, {}, BodyForm::Bytes},
        FormCase{"NoContentType", {.content_type = "", .body = {"{}"}}, {}, BodyForm::Bytes},
        FormCase{"RawJson", withBody("{}"), Raw, BodyForm::Bytes},
        FormCase{"NoSlices", {.body = {}}, {}, BodyForm::Empty},
        FormCase{"EmptySlices", {.body = {"", ""}}, {}, BodyForm::Empty},
        FormCase{"EmptyRaw", withBody(""), Raw, BodyForm::Empty},
        FormCase{"EmptySelected", withBody(""), selecting({"/a"}), BodyForm::Empty},
        FormCase{"Selected", withBody("{}"), selecting({"/a"}), BodyForm::SelectedJson},
        FormCase{"SelectedText",
                 {.content_type = "text/plain", .body = {"{}"}},
                 selecting({"/a"}),
                 BodyForm::Bytes},
        FormCase{"None", withBody("{}"), None, BodyForm::Ignored},
        FormCase{"Malformed", withBody("{"), {}, BodyForm::RejectedJson, JsonRejection::Malformed},
        FormCase{"OnlySpace", withBody(" "), {}, BodyForm::RejectedJson, JsonRejection::Malformed},
        FormCase{"MalformedSelected", withBody("{"), selecting({"/a"}), BodyForm::RejectedJson,
                 JsonRejection::Malformed},
        FormCase{"MalformedExcluded", withBody(R"({"a":})"), excluding({"/a"}),
                 BodyForm::RejectedJson, JsonRejection::Malformed},
        FormCase{"Duplicates",
                 withBody(R"({"a":1,"a":1})"),
                 {},
                 BodyForm::RejectedJson,
                 JsonRejection::DuplicateName},
        FormCase{"Inexact",
                 withBody("9007199254740993"),
                 {},
                 BodyForm::RejectedJson,
                 JsonRejection::InexactNumber}),
    [](const auto& info) { return info.param.name; });

TEST(FingerprintTest, OrderAndRepetitionInRulesDoNotMatter) {
  const Request request = {.headers = {{"x-a", "1"}, {"x-b", "2"}}};
  EXPECT_EQ(fingerprintOf(request, {.headers = {"x-b", "x-a", "x-b"}}),
            fingerprintOf(request, {.headers = {"x-a", "x-b"}}));
  EXPECT_EQ(fingerprintOf(request, selecting({"/currency", "/amount", "/currency"})),
            fingerprintOf(request, selecting({"/amount", "/currency"})));
}

MATCHER_P2(IsPart, name, bytes, "") {
  return arg.name == name && arg.bytes == bytes;
}

TEST(ExplainTest, NamesAllPartsInOrder) {
  const Request request = {.path = "/p?b=2&a=1",
                           .content_type = "Application/JSON",
                           .headers = {{"x-b", "2"}, {"x-c", "no"}, {"x-b", ""}},
                           .principal = "alice",
                           .body = {R"({"b":1.0,)", R"( "a":"x"})"}};
  const FingerprintRules rules = {.headers = {"x-b", "x-a"}, .principal = true};
  EXPECT_THAT(
      explain(request, rules).parts,
      ElementsAre(IsPart("version", "\x01"), IsPart("method", "POST"), IsPart("path", "/p"),
                  IsPart("query", "a=1&b=2"), IsPart("media type", "application/json"),
                  IsPart("header", "x-a"), IsPart("header", "x-b"), IsPart("header x-b", "2"),
                  IsPart("header x-b", ""), IsPart("principal", "alice"),
                  IsPart("body (canonical JSON)", R"({"a":"x","b":1})")));
}

TEST(ExplainTest, NamesTheBodyByItsForm) {
  const auto last = [](const Request& request, const FingerprintRules& rules) {
    return explain(request, rules).parts.back();
  };
  EXPECT_THAT(last(withBody(""), {}), IsPart("body (empty)", ""));
  EXPECT_THAT(last(withBody("[ ]"), Raw), IsPart("body (bytes)", "[ ]"));
  EXPECT_THAT(last(withBody("[ "), {}), IsPart("body (bytes, since not safely JSON)", "[ "));
  EXPECT_THAT(last(withBody("[1]"), None), IsPart("body (ignored)", ""));
}

TEST(ExplainTest, NamesSelectedValues) {
  const std::vector<FingerprintPart> parts =
      explain(withBody(R"({"b":[2.0]})"), selecting({"/b", "/a"})).parts;
  EXPECT_THAT(std::vector(parts.end() - 4, parts.end()),
              ElementsAre(IsPart("body pointer", "/a"), IsPart("body at '/a' (absent)", ""),
                          IsPart("body pointer", "/b"), IsPart("body at '/b'", "[2]")));
}

TEST(ExplainTest, GivesTheSameResult) {
  for (const FingerprintRules& rules :
       {FingerprintRules{}, Raw, None, selecting({"/amount", "/x"}), excluding({"/amount"}),
        FingerprintRules{.headers = {"x-a"}, .principal = true}}) {
    for (const Request& request :
         {Request{}, withBody(""), withBody("{"), withBody("[1e20]"), withPath("/?b&a"),
          Request{.content_type = "text/plain"}, Request{.headers = {{"x-a", "1"}}}}) {
      const FingerprintResult explained = explain(request, rules).result;
      const FingerprintResult computed = resultOf(request, rules);
      EXPECT_EQ(explained.fingerprint, computed.fingerprint);
      EXPECT_EQ(explained.body_form, computed.body_form);
      EXPECT_EQ(explained.rejection, computed.rejection);
    }
  }
}

// Made by another program from the description of the format. A change here is a new version.
TEST(FingerprintTest, VersionOneStaysAsItIs) {
  EXPECT_EQ(hex(fingerprintOf({})),
            "018bdfcd7d7885cee4cb0eaa40728555a3c8ad2fc7d31d1c704c353819134df8e8");
  EXPECT_EQ(hex(fingerprintOf({}, None)),
            "012e1456f0dfc6174be6b70e4f300e66ab41b0a55481f1e4210860f4b8fc76780a");
  EXPECT_EQ(hex(fingerprintOf({.path = "/v1/payments?b=2&a=1&a=0",
                               .content_type = "application/json; charset=utf-8; v=3",
                               .headers = {{"x-b", "2"}, {"x-b", ""}},
                               .principal = "alice"},
                              {.mode = FingerprintMode::Selected,
                               .headers = {"x-b", "x-a"},
                               .pointers = pointers({"/currency", "/tip"}),
                               .principal = true})),
            "01003cd4360e61a87016c7d9390919fe549cbf2b9f8390e6805c4f91d1b5bfd4b4");
  EXPECT_EQ(hex(fingerprintOf(withBody("{"))),
            "015c733d3dad2f06fd98ca7e3a6855150afef92c8c05411230ca8bbe769b6bf869");
  EXPECT_EQ(hex(fingerprintOf({.content_type = "", .body = {"a", "b"}})),
            "011d71f916fc9b7d789085e1af3b2fe630e3996e195c0ce8626ed752aefe10791b");
  EXPECT_EQ(hex(fingerprintOf({.content_type = "", .body = {}})),
            "01202ebdaee7110515b84b7288adbd9788ba3e5b725f350bb2587a2371458fa5bb");
}

// Requests from few values that are easy to mix up: two have the same fingerprint only if they are
// the same but for the order of headers and query parameters.
TEST(FingerprintPropertyTest, DifferentRequestsHaveDifferentFingerprints) {
  constexpr uint32_t Seed = 42;
  std::mt19937 random(Seed);
  const auto pick = [&random](const std::vector<std::string>& pool) {
    return pool[random() % pool.size()];
  };
  const std::vector<std::string> words = {"", "a", "b", "ab", "x-a", "POST", std::string(1, '\0')};
  const FingerprintRules rules = {
      .mode = FingerprintMode::Raw, .headers = {"x-a", "x-b"}, .principal = true};
  using Facts =
      std::tuple<std::string, std::string, std::vector<std::string>, std::string,
                 std::vector<std::string>, std::vector<std::string>, std::string, std::string>;
  std::map<Facts, Fingerprint> seen;
  std::set<Fingerprint> fingerprints;
  for (int i = 0; i < 60000; ++i) {
    Request request = {.method = pick(words), .path = pick(words), .content_type = pick(words)};
    std::vector<std::string> query;
    if (random() % 2 == 0) {
      query = {pick({"", "a", "b"})};
      if (random() % 2 == 0) {
        query.push_back(pick({"", "a", "b"}));
      }
      request.path += "?" + query[0] + (query.size() > 1 ? "&" + query[1] : "");
      std::sort(query.begin(), query.end());
    }
    for (size_t n = random() % 3; n > 0; --n) {
      request.headers.emplace_back(pick({"x-a", "x-b", "x-c"}), pick(words));
    }
    request.principal = pick(words);
    request.body = {pick(words), pick(words)};
    const auto values = [&request](std::string_view name) {
      std::vector<std::string> found;
      for (const auto& header : request.headers) {
        if (header.first == name) {
          found.push_back(header.second);
        }
      }
      return found;
    };
    const Facts facts = {request.method,
                         request.path.substr(0, request.path.find('?')),
                         query,
                         request.content_type,
                         values("x-a"),
                         values("x-b"),
                         request.principal,
                         request.body[0] + request.body[1]};
    const Fingerprint fingerprint = fingerprintOf(request, rules);
    const auto [found, inserted] = seen.emplace(facts, fingerprint);
    ASSERT_EQ(found->second, fingerprint);
    ASSERT_EQ(fingerprints.insert(fingerprint).second, inserted);
  }
  EXPECT_GT(seen.size(), 30000U);
  EXPECT_LT(seen.size(), 60000U);
}

}  // namespace
}  // namespace idempotency
