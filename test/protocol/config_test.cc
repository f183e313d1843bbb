#include "source/protocol/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::string_view Minimal =
    R"({"store": {"sqlite": {"path": "/var/lib/i.db"}}, "tenant": {"sources": [{"fixed": ""}]}})";

TEST(ConfigTest, MinimalConfigGivesTheDocumentedDefaults) {
  const auto filter = loadFilterConfig(Minimal);
  ASSERT_TRUE(filter.ok()) << filter.status();
  const auto policy = resolvePolicy(*filter, nullptr);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->enforcement, Enforcement::Off);
  EXPECT_THAT(policy->methods, ElementsAre("PATCH", "POST"));
  EXPECT_EQ(policy->mismatch_status, 422);
  EXPECT_EQ(policy->ttl, 24h);
}

TEST(ConfigTest, DesignExampleLoads) {
  const auto filter = loadFilterConfig(R"({
    "store": {"postgres": {"conninfo": "host=db dbname=app user=idempotency_filter sslmode=verify-full",
                           "password_file": "/run/secrets/pg", "connections": 4.0, "timeout": "1s"}},
    "tenant": {"sources": [{"header": "x-tenant-id"},
                           {"metadata": {"namespace": "my.auth", "key": "tenant"}},
                           {"peer_uri_san": {}}]},
    "policy": {"flavor": "IETF"}})");
  ASSERT_TRUE(filter.ok()) << filter.status();
  const auto route = loadRouteConfig(
      R"({"policy": {"enforcement": "REQUIRED", "operation": "create-payment", "ttl": "86400s"}})");
  ASSERT_TRUE(route.ok()) << route.status();
  const auto policy = resolvePolicy(*filter, &*route);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_TRUE(policy->covers("POST"));
  EXPECT_FALSE(policy->covers("GET"));
}

TEST(ConfigTest, UnknownFieldIsNamed) {
  const auto route = loadRouteConfig(R"({"policy": {"tll": "1s"}})");
  ASSERT_FALSE(route.ok());
  EXPECT_THAT(std::string(route.status().message()), HasSubstr("policy.tll: unknown field"));
}

}  // namespace
}  // namespace idempotency
