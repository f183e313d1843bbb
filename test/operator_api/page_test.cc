#include "source/operator_api/page.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::operator_api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view Prefix = "/ops/idempotency";

std::string header(const ApiAnswer& answer, std::string_view name) {
  const auto found = std::find_if(answer.headers.begin(), answer.headers.end(),
                                  [&](const auto& field) { return field.first == name; });
  return found == answer.headers.end() ? "" : found->second;
}

ApiAnswer get(const std::string& path) {
  return pageAnswer("GET", path, Prefix).value_or(ApiAnswer{});
}

TEST(Page, EveryFileThatThePageNamesIsThere) {
  const ApiAnswer page = get("/ops/idempotency/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(header(page, "content-type"), "text/html; charset=utf-8");
  for (const std::string name : {"page.css", "page.js", "icon.svg"}) {
    EXPECT_THAT(page.body, HasSubstr("\"" + name + "\""));
    EXPECT_EQ(get("/ops/idempotency/" + name).status, 200) << name;
  }
}

TEST(Page, BrowsersLearnWhatEachFileIs) {
  EXPECT_EQ(header(get("/ops/idempotency/page.css"), "content-type"), "text/css; charset=utf-8");
  EXPECT_EQ(header(get("/ops/idempotency/page.js"), "content-type"),
            "text/javascript; charset=utf-8");
  EXPECT_EQ(header(get("/ops/idempotency/icon.svg"), "content-type"), "image/svg+xml");
}

TEST(Page, ThePolicyLetsNothingInFromElsewhere) {
  const ApiAnswer page = get("/ops/idempotency/");
  const std::string policy = header(page, "content-security-policy");
  EXPECT_THAT(policy, StartsWith("default-src 'none'; script-src 'self'; style-src 'self'; "));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, HasSubstr("form-action 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(header(page, "x-content-type-options"), "nosniff");
  EXPECT_EQ(header(page, "cache-control"), "no-store");
  EXPECT_EQ(header(page, "referrer-policy"), "no-referrer");
}

TEST(Page, ThePrefixLeadsToThePage) {
  const ApiAnswer answer = get("/ops/idempotency?from=mail");
  EXPECT_EQ(answer.status, 308);
  EXPECT_EQ(header(answer, "location"), "/ops/idempotency/");
}

TEST(Page, OtherPathsAreNotThePage) {
  for (const std::string path :
       {"/", "/ops", "/ops/idempotency2/", "/ops/idempotency/v1/summary", "/page.js",
        "/ops/idempotency//page.js", "/ops/idempotency/page.js/", "/ops/idempotency/PAGE.JS",
        "/ops/idempotency/../page.js", ""}) {
    EXPECT_FALSE(pageAnswer("GET", path, Prefix).has_value()) << path;
  }
}

TEST(Page, FilesAreReadOnly) {
  const auto post = pageAnswer("POST", "/ops/idempotency/", Prefix);
  ASSERT_TRUE(post.has_value());
  EXPECT_EQ(post->status, 405);
  EXPECT_EQ(header(*post, "allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(pageAnswer("HEAD", "/ops/idempotency/page.js", Prefix)->status, 200);
  EXPECT_EQ(pageAnswer("OPTIONS", "/ops/idempotency/page.js", Prefix)->status, 204);
}

}  // namespace
}  // namespace idempotency::operator_api
