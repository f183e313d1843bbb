#include "source/message/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::message {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr int64_t Expires = 784111777;
constexpr const char* ExpiresText = "Sun, 06 Nov 1994 08:49:37 GMT";

protocol::StoredResponse created() {
  return {201, {{"content-type", "text/plain"}, {"x-a", "1"}, {"x-a", "2"}}, "hello", {}};
}

TEST(ReplayTest, IsTheStoredResponseAndSaysSo) {
  const protocol::StoredResponse stored = created();
  const auto replay = buildReplay(stored, {.expires_at = Expires});
  ASSERT_TRUE(replay.has_value());
  EXPECT_EQ(replay->status, 201);
  EXPECT_THAT(replay->headers,
              ElementsAre(Pair("content-type", "text/plain"), Pair("x-a", "1"), Pair("x-a", "2"),
                          Pair("content-length", "5"), Pair("idempotent-replayed", "true"),
                          Pair("idempotency-key-expires", ExpiresText)));
  EXPECT_EQ(replay->body, "hello");
  EXPECT_EQ(replay->body.data(), stored.body.data());
  EXPECT_THAT(replay->trailers, IsEmpty());
}

TEST(ReplayTest, ExpiryThatIsNotKnownIsNotSaid) {
  protocol::StoredResponse stored = created();
  stored.headers.clear();
  const auto replay = buildReplay(stored, {});
  ASSERT_TRUE(replay.has_value());
  EXPECT_THAT(replay->headers,
              ElementsAre(Pair("content-length", "5"), Pair("idempotent-replayed", "true")));
}

TEST(ReplayTest, EmptyBodyHasLengthZero) {
  const protocol::StoredResponse stored{200, {}, "", {}};
  const auto replay = buildReplay(stored, {});
  ASSERT_TRUE(replay.has_value());
  EXPECT_THAT(replay->headers,
              ElementsAre(Pair("content-length", "0"), Pair("idempotent-replayed", "true")));
}

TEST(ReplayTest, BinaryBodyIsCountedInBytes) {
  protocol::StoredResponse stored{200, {}, std::string("\0\xff\r\n\r\n", 6), {}};
  const auto replay = buildReplay(stored, {});
  ASSERT_TRUE(replay.has_value());
  EXPECT_EQ(replay->body, stored.body);
  EXPECT_THAT(replay->headers, testing::Contains(Pair("content-length", "6")));
}

TEST(ReplayTest, ResponsesWithoutBodyGetNeitherBodyNorLength) {
  for (const int status : {204, 205, 304}) {
    const protocol::StoredResponse stored{status, {{"etag", "x"}}, "must not go out", {{"t", "1"}}};
    const auto replay = buildReplay(stored, {});
    ASSERT_TRUE(replay.has_value());
    EXPECT_EQ(replay->body, "");
    EXPECT_THAT(replay->trailers, IsEmpty());
    EXPECT_THAT(replay->headers,
                ElementsAre(Pair("etag", "x"), Pair("idempotent-replayed", "true")));
  }
}

TEST(ReplayTest, HeadGetsNeitherBodyNorLength) {
  const protocol::StoredResponse stored = created();
  const auto replay = buildReplay(stored, {.head = true});
  ASSERT_TRUE(replay.has_value());
  EXPECT_EQ(replay->body, "");
  for (const auto& [name, value] : replay->headers) {
    EXPECT_NE(name, "content-length");
  }
}

TEST(ReplayTest, TrailersFollowWithoutLength) {
  protocol::StoredResponse stored = created();
  stored.trailers = {{"x-checksum", "abc"}};
  const auto replay = buildReplay(stored, {});
  ASSERT_TRUE(replay.has_value());
  EXPECT_THAT(replay->trailers, ElementsAre(Pair("x-checksum", "abc")));
  for (const auto& [name, value] : replay->headers) {
    EXPECT_NE(name, "content-length");
  }
}

TEST(ReplayTest, GrpcResponseWithoutTrailersGetsNoLength) {
  const protocol::StoredResponse stored{
      200, {{"content-type", "application/grpc+proto"}, {"grpc-status", "5"}}, "", {}};
  const auto replay = buildReplay(stored, {});
  ASSERT_TRUE(replay.has_value());
  for (const auto& [name, value] : replay->headers) {
    EXPECT_NE(name, "content-length");
  }
}

TEST(ReplayTest, StoredForbiddenFieldsAreNotReplayed) {
  protocol::StoredResponse stored = created();
  stored.headers = {{"set-cookie", "a=b"},
                    {"content-length", "999"},
                    {"transfer-encoding", "x"},
                    {"x-ok", "1"},
                    {"idempotent-replayed", "false"}};
  stored.trailers = {{"set-cookie", "c=d"}};
  const auto replay = buildReplay(stored, {});
  ASSERT_TRUE(replay.has_value());
  EXPECT_THAT(replay->headers, ElementsAre(Pair("x-ok", "1"), Pair("content-length", "5"),
                                           Pair("idempotent-replayed", "true")));
  EXPECT_THAT(replay->trailers, IsEmpty());
}

TEST(ReplayTest, UnsafeFieldsRefuseTheReplay) {
  for (const std::string& value :
       {std::string("a\r\nx: y"), std::string("\n"), std::string("a\0", 2)}) {
    protocol::StoredResponse stored = created();
    stored.headers.emplace_back("x-b", value);
    EXPECT_EQ(buildReplay(stored, {}).has_value(), false);
    stored = created();
    stored.trailers.emplace_back("x-b", value);
    EXPECT_EQ(buildReplay(stored, {}).has_value(), false);
  }
  protocol::StoredResponse stored = created();
  stored.headers.emplace_back("x b", "1");
  EXPECT_EQ(buildReplay(stored, {}).has_value(), false);
  stored = created();
  stored.headers.emplace_back(":status", "200");
  EXPECT_EQ(buildReplay(stored, {}).has_value(), false);
}

TEST(ReplayTest, StatusThatIsNotFinalRefusesTheReplay) {
  for (const int status : {0, 100, 101, 199, 600, -200}) {
    protocol::StoredResponse stored = created();
    stored.status = status;
    EXPECT_EQ(buildReplay(stored, {}).has_value(), false) << status;
  }
}

TEST(ReplayTest, CorsResponseExposesTheFiltersHeaders) {
  protocol::StoredResponse stored = created();
  stored.headers = {{"access-control-allow-origin", "*"},
                    {"access-control-expose-headers", "etag"}};
  const auto replay = buildReplay(stored, {});
  ASSERT_TRUE(replay.has_value());
  EXPECT_THAT(replay->headers,
              testing::Contains(
                  Pair("access-control-expose-headers",
                       "etag, idempotent-replayed, idempotency-key-expires, idempotency-stored, "
                       "idempotency-enforced")));
}

TEST(ReplayTest, ResponseWithoutCorsExposesNothing) {
  protocol::StoredResponse stored = created();
  stored.headers = {{"access-control-expose-headers", "etag"}};
  const auto replay = buildReplay(stored, {});
  ASSERT_TRUE(replay.has_value());
  EXPECT_THAT(replay->headers, testing::Contains(Pair("access-control-expose-headers", "etag")));
}

}  // namespace
}  // namespace idempotency::message
