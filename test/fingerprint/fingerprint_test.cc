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

namespace idempotency::fingerprint {
namespace {

using testing::ElementsAre;

// A request that owns its bytes.
struct Request {
  std::string method = "POST";
  std::string path = "/v1/payments";
  std::optional<std::string> content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string principal = "";
  std::vector<std::string> body = {R"({"amount":100,"currency":"EUR"})"};
  std::optional<std::string> authority = "api.example.com";
  std::string scheme = "https";
};

Request withBody(std::string body) {
  return {.body = {std::move(body)}};
}
Request withPath(std::string path) {
  return {.path = std::move(path)};
}
Request withAuthority(std::optional<std::string> authority, std::string scheme = "https") {
  return {.authority = std::move(authority), .scheme = std::move(scheme)};
}
Request withHeaders(std::vector<std::pair<std::string, std::string>> headers) {
  return {.headers = std::move(headers)};
}

template <class Use>
auto use(const Request& request, const Use& function) {
  const std::vector<std::string_view> body(request.body.begin(), request.body.end());
  std::vector<RequestHeader> headers;
  for (const auto& [name, value] : request.headers) {
    headers.push_back({name, value});
  }
  return function(RequestParts{.method = request.method,
                               .scheme = request.scheme,
                               .authority = request.authority,
                               .path = request.path,
                               .content_type = request.content_type,
                               .headers = headers,
                               .principal = request.principal,
                               .body = body});
}

FingerprintResult resultOf(const Request& request, const FingerprintRules& rules = {},
                           uint8_t version = FingerprintVersion) {
  return use(request, [&](const RequestParts& parts) {
    return computeFingerprint(parts, rules, version).value();
  });
}

Fingerprint fingerprintOf(const Request& request, const FingerprintRules& rules = {},
                          uint8_t version = FingerprintVersion) {
  return resultOf(request, rules, version).fingerprint;
}

FingerprintExplanation explain(const Request& request, const FingerprintRules& rules = {},
                               uint8_t version = FingerprintVersion) {
  return use(request, [&](const RequestParts& parts) {
    return explainFingerprint(parts, rules, version).value();
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
const FingerprintRules AnyAuthority = {.authority = false};
const FingerprintRules QueryAsSent = {.query = QueryOrder::AsSent};

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
        PairCase{"AuthorityInOtherCase", withAuthority("api.example.com"),
                 withAuthority("API.Example.com")},
        PairCase{"AuthorityWithDefaultPort", withAuthority("api.example.com"),
                 withAuthority("api.example.com:443")},
        PairCase{"AuthorityWithDefaultPortOfHttp", withAuthority("api.example.com", "http"),
                 withAuthority("api.example.com:80", "http")},
        PairCase{"AuthorityThatDoesNotCount", withAuthority("api.example.com"),
                 withAuthority("api-eu.example.com"), AnyAuthority},
        PairCase{"AuthorityNoneThatDoesNotCount", withAuthority("api.example.com"),
                 withAuthority(std::nullopt), AnyAuthority},
        PairCase{"HostOfAProxy", withHeaders({{"x-forwarded-host", "a.example"}}),
                 withHeaders({{"x-forwarded-host", "b.example"}})},
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
        PairCase{"AnythingInModeNone",
                 {},
                 {.method = "PUT",
                  .path = "/x?y",
                  .content_type = std::nullopt,
                  .headers = {{"if-match", "\"1\""}},
                  .principal = "z",
                  .body = {},
                  .authority = "elsewhere.example"},
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
        PairCase{"QueryOrderOfBrackets", withPath("/a?i[][n]=x&i[][q]=1&i[][n]=y"),
                 withPath("/a?i[][n]=x&i[][n]=y&i[][q]=1")},
        PairCase{"QueryOrderOfEncodedBrackets", withPath("/a?i%5B%5D%5Bn%5D=x&i%5b%5d%5bq%5d=1"),
                 withPath("/a?i%5b%5d%5bq%5d=1&i%5B%5D%5Bn%5D=x")},
        PairCase{"QueryOrderBesideABracket", withPath("/a?b=1&c=2&i[]=3"),
                 withPath("/a?c=2&b=1&i[]=3")},
        PairCase{"QueryOrderOfSemicolons", withPath("/a?b=1;c=2&a=0"), withPath("/a?a=0&b=1;c=2")},
        PairCase{"QueryOrderOfOneNameDecoded", withPath("/a?b=1&%62=2"), withPath("/a?%62=2&b=1")},
        PairCase{"QueryOrderOfOneNameInOtherCase", withPath("/a?b=1&B=2"), withPath("/a?B=2&b=1")},
        PairCase{"QueryOrderOfOneNameInPhp", withPath("/a?b.c=1&b_c=2"),
                 withPath("/a?b_c=2&b.c=1")},
        PairCase{"QueryOrderByChoice", withPath("/a?b=1&c=2"), withPath("/a?c=2&b=1"), QueryAsSent},
        PairCase{"QueryNotPath", withPath("/a?b"), withPath("/a%3Fb")},
        PairCase{"MediaType",
                 {.content_type = "application/json"},
                 {.content_type = "application/vnd.api+json"}},
        PairCase{"MediaTypeParameter",
                 {.content_type = "application/json;v=1"},
                 {.content_type = "application/json;v=2"}},
        PairCase{"MediaTypeNone", {.content_type = "text/plain"}, {.content_type = std::nullopt}},
        PairCase{"MediaTypeEmptyOrNone", {.content_type = ""}, {.content_type = std::nullopt}},
        PairCase{"Authority", withAuthority("api.example.com"),
                 withAuthority("api-eu.example.com")},
        PairCase{"AuthorityPort", withAuthority("api.example.com"),
                 withAuthority("api.example.com:8443")},
        PairCase{"AuthorityPortOfAnotherScheme", withAuthority("api.example.com", "https"),
                 withAuthority("api.example.com:80", "https")},
        PairCase{"AuthorityEmptyOrNone", withAuthority(""), withAuthority(std::nullopt)},
        PairCase{"AuthorityNone", withAuthority("api.example.com"), withAuthority(std::nullopt)},
        PairCase{
            "AuthorityOrPath", {.path = "a", .authority = "b"}, {.path = "b", .authority = "a"}},
        PairCase{"AuthorityWhileSelecting", withAuthority("a"), withAuthority("b"),
                 selecting({"/amount"})},
        PairCase{"IfMatch", withHeaders({{"if-match", "\"1\""}}),
                 withHeaders({{"if-match", "\"2\""}})},
        PairCase{"IfMatchOrNone", withHeaders({{"if-match", "\"1\""}}), {}},
        PairCase{"IfMatchEmptyOrNone", withHeaders({{"if-match", ""}}), {}},
        PairCase{"IfMatchLines", withHeaders({{"if-match", "\"1\""}}),
                 withHeaders({{"if-match", "\"1\""}, {"if-match", "\"2\""}})},
        PairCase{"IfNoneMatch", withHeaders({{"if-none-match", "*"}}), {}},
        PairCase{"IfMatchOrIfNoneMatch", withHeaders({{"if-match", "*"}}),
                 withHeaders({{"if-none-match", "*"}})},
        PairCase{"IfUnmodifiedSince",
                 withHeaders({{"if-unmodified-since", "Tue, 17 Nov 2026 00:00:00 GMT"}}),
                 withHeaders({{"if-unmodified-since", "Tue, 17 Nov 2026 00:00:01 GMT"}})},
        PairCase{"ContentEncoding", withHeaders({{"content-encoding", "gzip"}}),
                 withHeaders({{"content-encoding", "br"}})},
        PairCase{"ContentEncodingOrNone", withHeaders({{"content-encoding", "gzip"}}), {}},
        PairCase{"ContentEncodingInModeRaw", withHeaders({{"content-encoding", "gzip"}}), {}, Raw},
        PairCase{"IfMatchThatIsNamedToo",
                 withHeaders({{"if-match", "\"1\""}}),
                 withHeaders({{"if-match", "\"2\""}}),
                 {.headers = {"if-match"}}},
        PairCase{"IfMatchBesideAnotherHeader",
                 withHeaders({{"if-match", "1"}, {"x-a", "2"}}),
                 withHeaders({{"if-match", "2"}, {"x-a", "1"}}),
                 {.headers = {"x-a"}}},
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
  EXPECT_EQ(fingerprintOf({}, {}, 1)[0], 1);
  EXPECT_EQ(fingerprintOf({})[0], FingerprintVersion);
  EXPECT_EQ(fingerprintOf({}, None)[0], FingerprintVersion);
}

TEST(FingerprintTest, UnknownVersionsAreRefused) {
  for (const uint8_t version : {0, 3, 255}) {
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
        FormCase{
            "NoContentType", {.content_type = std::nullopt, .body = {"{}"}}, {}, BodyForm::Bytes},
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
      ElementsAre(IsPart("version", "\x02"), IsPart("method", "POST"),
                  IsPart("authority", "api.example.com"), IsPart("path", "/p"),
                  IsPart("query", "a=1&b=2"), IsPart("media type", "application/json"),
                  IsPart("header", "x-a"), IsPart("header", "x-b"), IsPart("header x-b", "2"),
                  IsPart("header x-b", ""), IsPart("principal", "alice"),
                  IsPart("body (canonical JSON)", R"({"a":"x","b":1})")));
}

TEST(ExplainTest, NamesWhatVersionTwoAdds) {
  const Request request = {
      .path = "/p?b[]=2&a=1",
      .content_type = std::nullopt,
      .headers = {{"if-match", "\"1\""}, {"x-a", "1"}, {"content-encoding", ""}},
      .body = {},
      .authority = "API.example.com:443"};
  EXPECT_THAT(
      explain(request).parts,
      ElementsAre(IsPart("version", "\x02"), IsPart("method", "POST"),
                  IsPart("authority", "api.example.com"), IsPart("path", "/p"),
                  IsPart("query (as sent)", "b[]=2&a=1"), IsPart("header", "content-encoding"),
                  IsPart("header content-encoding", ""), IsPart("header", "if-match"),
                  IsPart("header if-match", "\"1\""), IsPart("body (empty)", "")));
  EXPECT_THAT(explain(request, {}, 1).parts,
              ElementsAre(IsPart("version", "\x01"), IsPart("method", "POST"), IsPart("path", "/p"),
                          IsPart("query", "a=1&b[]=2"), IsPart("body (empty)", "")));
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

std::string hexByVersionOne(const Request& request, const FingerprintRules& rules = {}) {
  return hex(fingerprintOf(request, rules, 1));
}

// What the last build wrote that knew version 1 alone. Records hold it: it must never change.
TEST(FingerprintTest, VersionOneIsWhatItWas) {
  EXPECT_EQ(hexByVersionOne(withPath("/v1/payments?i[][n]=x&i[][q]=1&i[][n]=y")),
            "015571b537564a17280bcc2b761a2ffb969ec217af92ee66df203dbd986604b00f");
  EXPECT_EQ(hexByVersionOne(withPath("/v1/payments?i%5b%5D=2&a=1")),
            "014b0b35095c8d18d2b019a0702aaaf225a978df3c63dbcd517814f987f0251e22");
  EXPECT_EQ(hexByVersionOne(withPath("/v1/payments?b=1;a=2&a=3")),
            "01f0a9bd7956f233c6a97988479c8a5a1c1d8fe4b9f5d52857d8d55e0d6744b5f0");
  EXPECT_EQ(hexByVersionOne(withPath("/v1/payments?a=1&%61=2")),
            "0113f4ae4d9d9bf4f646fd4683739359db593caf64e33ea2b1e5e39a645068a14c");
  EXPECT_EQ(hexByVersionOne(withPath("/v1/payments?B=1&a=2&A=3")),
            "01ac4b6772fd0799553fa592e9f0caf4153c8896cd4803ccbe1df81dfeaa2eaac2");
  EXPECT_EQ(hexByVersionOne(withPath("/v1/payments?")),
            "01cb12e2c74f8db983862e462339b4b9ef3ef1f9bb6073cf37db77250efeb84507");
  EXPECT_EQ(hexByVersionOne({.method = "PATCH",
                             .headers = {{"if-match", "\"1\""}, {"content-encoding", "gzip"}}}),
            "0196247f182d28e2ec095f42e4bcb719a3377a4b79d184a10a75012e0d884eb920");
  EXPECT_EQ(hexByVersionOne({.content_type = "Application/JSON; Charset=UTF-8; v=2",
                             .body = {R"({"b": 1e2, "a": "\u00fc", "c": [1.0, null]})"}}),
            "01215ec3eaa3d0a8ba6e6a8244318d88c053d442bc1ed8647acbc787c8a9971eaf");
  EXPECT_EQ(hexByVersionOne(withBody(R"({"a": 1, "a": 2})")),
            "01cace3de9a55462c566afb89cbcfee2d12708daba524f2351f21c5acbde46d660");
  EXPECT_EQ(
      hexByVersionOne({.headers = {{"x-b", "2"}, {"x-b", ""}}, .principal = "alice"},
                      {.mode = FingerprintMode::Raw, .headers = {"x-b", "x-a"}, .principal = true}),
      "01de82f86d9bd0737519ca85a485face002918ad6e24df4ec52f74d119c3a10a4a");
  EXPECT_EQ(hexByVersionOne(withHeaders({{"if-match", "\"1\""}}),
                            {.headers = {"if-match"}, .exclude_pointers = pointers({"/currency"})}),
            "01a9bc0b4edd94bcb898eaf1bf4c63902ec07d12cbe7011bcb949a20dd18e37eb9");
}

// What version 2 looks at and version 1 did not know: its records cannot tell such requests apart.
TEST(FingerprintTest, VersionOneKnowsNothingOfVersionTwo) {
  const std::string plain = hexByVersionOne({});
  EXPECT_EQ(hexByVersionOne(withAuthority("elsewhere.example")), plain);
  EXPECT_EQ(hexByVersionOne(withAuthority(std::nullopt)), plain);
  EXPECT_EQ(hexByVersionOne(withHeaders({{"if-match", "\"1\""}, {"content-encoding", "br"}})),
            plain);
  EXPECT_EQ(hexByVersionOne({}, AnyAuthority), plain);
  EXPECT_EQ(hexByVersionOne(withPath("/p?b=1&a=2"), QueryAsSent),
            hexByVersionOne(withPath("/p?a=2&b=1")));
  EXPECT_EQ(hexByVersionOne({.content_type = ""}), hexByVersionOne({.content_type = std::nullopt}));
}

// Made by another program from the description of the format. A change here is a new version.
TEST(FingerprintTest, VersionOneStaysAsItIs) {
  EXPECT_EQ(hexByVersionOne({}),
            "018bdfcd7d7885cee4cb0eaa40728555a3c8ad2fc7d31d1c704c353819134df8e8");
  EXPECT_EQ(hexByVersionOne({}, None),
            "012e1456f0dfc6174be6b70e4f300e66ab41b0a55481f1e4210860f4b8fc76780a");
  EXPECT_EQ(hexByVersionOne({.path = "/v1/payments?b=2&a=1&a=0",
                             .content_type = "application/json; charset=utf-8; v=3",
                             .headers = {{"x-b", "2"}, {"x-b", ""}},
                             .principal = "alice"},
                            {.mode = FingerprintMode::Selected,
                             .headers = {"x-b", "x-a"},
                             .pointers = pointers({"/currency", "/tip"}),
                             .principal = true}),
            "01003cd4360e61a87016c7d9390919fe549cbf2b9f8390e6805c4f91d1b5bfd4b4");
  EXPECT_EQ(hexByVersionOne(withBody("{")),
            "015c733d3dad2f06fd98ca7e3a6855150afef92c8c05411230ca8bbe769b6bf869");
  EXPECT_EQ(hexByVersionOne({.content_type = "", .body = {"a", "b"}}),
            "011d71f916fc9b7d789085e1af3b2fe630e3996e195c0ce8626ed752aefe10791b");
  EXPECT_EQ(hexByVersionOne({.content_type = "", .body = {}}),
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
      std::tuple<std::string, std::optional<std::string>, std::string, std::vector<std::string>,
                 std::optional<std::string>, std::vector<std::string>, std::vector<std::string>,
                 std::vector<std::string>, std::string, std::string>;
  // The only word that has upper case.
  const auto lower = [](const std::optional<std::string>& word) {
    return word == "POST" ? "post" : word;
  };
  std::map<Facts, Fingerprint> seen;
  std::set<Fingerprint> fingerprints;
  for (int i = 0; i < 60000; ++i) {
    Request request = {.method = pick(words), .path = pick(words), .content_type = pick(words)};
    if (random() % 4 == 0) {
      request.content_type = std::nullopt;
    }
    request.authority = pick(words);
    if (random() % 4 == 0) {
      request.authority = std::nullopt;
    }
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
      request.headers.emplace_back(pick({"x-a", "x-b", "x-c", "if-match"}), pick(words));
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
                         lower(request.authority),
                         request.path.substr(0, request.path.find('?')),
                         query,
                         request.content_type,
                         values("x-a"),
                         values("x-b"),
                         values("if-match"),
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
}  // namespace idempotency::fingerprint
