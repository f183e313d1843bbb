#include "source/message/headers.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "source/http/header_names.h"

namespace idempotency::message {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::optional<protocol::FieldList> store(std::vector<protocol::FieldView> fields,
                                         const protocol::Policy& policy = {}) {
  return fieldsToStore(policy, fields);
}

TEST(FieldsToStoreTest, KeepsOrderRepetitionAndBytes) {
  const auto stored = store({{":status", "200"},
                             {"content-type", "text/plain"},
                             {"etag", "\"a\""},
                             {"x-multi", "1"},
                             {"location", "/payments/7"},
                             {"x-multi", "2"},
                             {"x-bytes", "\xff\x80\t"},
                             {"x-empty", ""},
                             {"date", "Sun, 06 Nov 1994 08:49:37 GMT"}});
  ASSERT_TRUE(stored.has_value());
  EXPECT_THAT(*stored,
              ElementsAre(Pair("content-type", "text/plain"), Pair("etag", "\"a\""),
                          Pair("x-multi", "1"), Pair("location", "/payments/7"),
                          Pair("x-multi", "2"), Pair("x-bytes", "\xff\x80\t"), Pair("x-empty", ""),
                          Pair("date", "Sun, 06 Nov 1994 08:49:37 GMT")));
}

class NeverStoredTest : public testing::TestWithParam<const char*> {};

TEST_P(NeverStoredTest, IsLeftOut) {
  EXPECT_TRUE(isNeverStored(GetParam()));
  const auto stored = store({{"x-a", "1"}, {GetParam(), "v"}, {"x-b", "2"}, {GetParam(), "w"}});
  ASSERT_TRUE(stored.has_value());
  EXPECT_THAT(*stored, ElementsAre(Pair("x-a", "1"), Pair("x-b", "2")));
}

INSTANTIATE_TEST_SUITE_P(
    Names, NeverStoredTest,
    testing::Values(":status", ":path", "connection", "keep-alive", "proxy-connection", "te",
                    "transfer-encoding", "upgrade", "http2-settings", "set-cookie", "set-cookie2",
                    "www-authenticate", "proxy-authenticate", "authentication-info",
                    "proxy-authentication-info", "authorization", "proxy-authorization",
                    "dpop-nonce", "content-length", "server", "x-envoy-upstream-service-time",
                    "x-envoy-attempt-count", "x-envoy-decorator-operation", "idempotency-key",
                    "idempotency-attempt", "idempotency-recovery-point", "idempotent-replayed",
                    "idempotency-key-expires", "idempotency-stored", "idempotency-enforced"));

TEST(FieldsToStoreTest, NamesThatConnectionListsAreHopByHop) {
  const auto stored = store({{"x-kept", "1"},
                             {"x-hop", "2"},
                             {"connection", "close, X-Hop ,,"},
                             {"x-later", "3"},
                             {"connection", "x-later"}});
  ASSERT_TRUE(stored.has_value());
  EXPECT_THAT(*stored, ElementsAre(Pair("x-kept", "1")));
}

TEST(FieldsToStoreTest, PolicyNamesMore) {
  protocol::Policy policy;
  policy.unstored_headers = {"x-a", "x-b"};
  const auto stored = store({{"x-a", "1"}, {"x-aa", "2"}, {"x-b", "3"}}, policy);
  ASSERT_TRUE(stored.has_value());
  EXPECT_THAT(*stored, ElementsAre(Pair("x-aa", "2")));
}

TEST(FieldsToStoreTest, UnsafeFieldMakesTheResponseUnstorable) {
  for (const std::string& value : {std::string("a\r\nset-cookie: x"), std::string("a\rb"),
                                   std::string("a\nb"), std::string("a\0b", 3)}) {
    EXPECT_EQ(store({{"x-a", "1"}, {"x-b", value}}), std::nullopt);
  }
  for (const std::string& name :
       {std::string(""), std::string("x b"), std::string("x\r\ny"), std::string("x:"),
        std::string("X-Upper"), std::string("x\0y", 3), std::string("\xc3\xa4")}) {
    EXPECT_EQ(store({{name, "1"}}), std::nullopt) << name;
  }
}

TEST(FieldsToStoreTest, UnsafeFieldThatIsLeftOutDoesNotMatter) {
  const auto stored = store({{"set-cookie", "a\r\nb"}});
  ASSERT_TRUE(stored.has_value());
  EXPECT_THAT(*stored, IsEmpty());
}

TEST(ExposeTest, ResponseUsesCorsIfItAllowsAnOrigin) {
  EXPECT_FALSE(usesCors({{"access-control-expose-headers", "x-a"}}));
  EXPECT_TRUE(usesCors({{"x-a", "1"}, {"access-control-allow-origin", "*"}}));
}

TEST(ExposeTest, ExistingListIsReplacedInItsPlace) {
  protocol::FieldList headers = {{"access-control-expose-headers", "x-a"}, {"x-a", "1"}};
  exposeOwnHeaders(headers);
  EXPECT_THAT(headers, ElementsAre(Pair("access-control-expose-headers",
                                        "x-a, idempotent-replayed, idempotency-key-expires, "
                                        "idempotency-stored, idempotency-enforced"),
                                   Pair("x-a", "1")));
}

TEST(ContentLengthTest, MoreThanTheLimit) {
  EXPECT_FALSE(announcesMoreThan("", 4));
  EXPECT_FALSE(announcesMoreThan("many", 4));
  EXPECT_FALSE(announcesMoreThan("-11", 4));
  EXPECT_FALSE(announcesMoreThan("0", 0));
  EXPECT_FALSE(announcesMoreThan("4", 4));
  EXPECT_TRUE(announcesMoreThan("5", 4));
  EXPECT_TRUE(announcesMoreThan("18446744073709551616", 4)) << "more than any number here";
}

TEST(ExposeTest, ResponseWithCorsExposesTheFiltersHeaders) {
  protocol::FieldList headers = {{"access-control-allow-origin", "https://a.example"}};
  exposeOwnHeaders(headers);
  EXPECT_THAT(headers,
              ElementsAre(Pair("access-control-allow-origin", "https://a.example"),
                          Pair("access-control-expose-headers",
                               "idempotent-replayed, idempotency-key-expires, idempotency-stored, "
                               "idempotency-enforced")));
}

TEST(ExposeTest, ListIsExtendedByWhatIsNotThere) {
  EXPECT_EQ(exposedWithOwnHeaders("ETag,Idempotency-Key-Expires"),
            "ETag,Idempotency-Key-Expires, idempotent-replayed, idempotency-stored, "
            "idempotency-enforced");
  EXPECT_EQ(exposedWithOwnHeaders("*"), std::nullopt);
  EXPECT_EQ(
      exposedWithOwnHeaders("Idempotent-Replayed, idempotency-key-expires, Idempotency-Stored, "
                            "idempotency-enforced"),
      std::nullopt);
}

TEST(HeaderNamesTest, Tokens) {
  EXPECT_TRUE(http::isToken("x-A_1.!#$%&'*+^`|~"));
  for (const std::string_view text : {"", "a b", "a:", "a/b", "a\"", "(", "a,b", "\x7f", "\x80"}) {
    EXPECT_FALSE(http::isToken(text)) << text;
  }
}

}  // namespace
}  // namespace idempotency::message
