#include "source/filter/stream/route_policy.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::filter {
namespace {

config::FilterConfig filterConfig(const std::string& policy) {
  auto config = config::loadFilterConfig(R"({"store": {"sqlite": {"path": "/x.db"}},
                                     "tenant": {"sources": [{"fixed": ""}]},
                                     "policy": )" +
                                         policy + "}");
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

config::RouteConfig routeConfig(const std::string& policy) {
  auto config = config::loadRouteConfig(R"({"policy": )" + policy + "}");
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

TEST(RoutePolicyTest, EachFilterConfigGetsItsOwnPolicyOnce) {
  const config::FilterConfig first = filterConfig(R"({"max_key_length": 100})");
  const config::FilterConfig second = filterConfig(R"({"max_key_length": 200})");
  const RoutePolicy route(routeConfig(R"({"enforcement": "REQUIRED"})"));
  const SharedPolicy& a = route.resolve(1, first);
  const SharedPolicy& b = route.resolve(2, second);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ((*a)->key.max_length, 100u);
  EXPECT_EQ((*b)->key.max_length, 200u);
  EXPECT_EQ((*a)->enforcement, protocol::Enforcement::Required);
  EXPECT_EQ(&route.resolve(1, first), &a);
  EXPECT_EQ(&route.resolve(2, second), &b);
}

TEST(RoutePolicyTest, ContradictionIsKeptAsAnError) {
  const config::FilterConfig filter = filterConfig(R"({"max_key_length": 20})");
  const RoutePolicy route(routeConfig(R"({"min_key_length": 30})"));
  EXPECT_FALSE(route.resolve(1, filter).ok());
  EXPECT_EQ(&route.resolve(1, filter), &route.resolve(1, filter));
}

// Run under TSAN: workers meet a new pair at the same time and agree.
TEST(RoutePolicyTest, WorkersThatMeetAPairTogetherGetOnePolicy) {
  const config::FilterConfig filter = filterConfig("{}");
  const RoutePolicy route(routeConfig("{}"));
  constexpr uint64_t Pairs = 50;
  std::vector<std::vector<const SharedPolicy*>> seen(4);
  std::vector<std::thread> workers;
  for (auto& mine : seen) {
    workers.emplace_back([&] {
      for (uint64_t id = 1; id <= Pairs; ++id) {
        mine.push_back(&route.resolve(id, filter));
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  for (const auto& mine : seen) {
    EXPECT_EQ(mine, seen[0]);
  }
}

}  // namespace
}  // namespace idempotency::filter
