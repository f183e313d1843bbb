#include "source/filter/stream/waiting_runs.h"

#include <atomic>
#include <cctype>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::filter {
namespace {

WaitingRun runOf(const std::string& scheme) {
  return {nullptr, {}, scheme};
}

TEST(WaitingRunsTest, TokenFindsItsRunOnce) {
  WaitingRuns runs;
  const std::string one = runs.add(runOf("http"));
  const std::string two = runs.add(runOf("https"));
  const auto found = runs.take(two);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->scheme, "https");
  EXPECT_FALSE(runs.take(two).has_value());
  ASSERT_TRUE(runs.take(one).has_value());
  EXPECT_FALSE(runs.take(one).has_value());
}

TEST(WaitingRunsTest, TokensAreRandomText) {
  WaitingRuns runs;
  std::set<std::string> halves;
  for (int i = 0; i < 1000; ++i) {
    const std::string token = runs.add(runOf(""));
    ASSERT_EQ(token.size(), 32u);
    for (const char c : token) {
      ASSERT_TRUE(std::isxdigit(static_cast<unsigned char>(c)) != 0) << token;
    }
    halves.insert(token.substr(0, 16));
    halves.insert(token.substr(16));
  }
  EXPECT_EQ(halves.size(), 2000u);
}

// Every character counts, and a wrong guess takes nothing away.
TEST(WaitingRunsTest, WrongTokenIsRefused) {
  WaitingRuns runs;
  const std::string token = runs.add(runOf(""));
  for (size_t i = 0; i < token.size(); ++i) {
    std::string wrong = token;
    wrong[i] = wrong[i] == '0' ? '1' : '0';
    EXPECT_FALSE(runs.take(wrong).has_value()) << i;
  }
  for (const std::string& wrong :
       {std::string(), token.substr(0, 16), token.substr(0, 31), token + "0", "0" + token}) {
    EXPECT_FALSE(runs.take(wrong).has_value()) << wrong;
  }
  EXPECT_TRUE(runs.take(token).has_value());
}

TEST(WaitingRunsTest, SecretOfAnotherRunOpensNothing) {
  WaitingRuns runs;
  const std::string one = runs.add(runOf(""));
  const std::string two = runs.add(runOf(""));
  EXPECT_FALSE(runs.take(one.substr(0, 16) + two.substr(16)).has_value());
}

TEST(WaitingRunsTest, RedirectedRunIsFoundByItsAttemptOnce) {
  WaitingRuns runs;
  runs.addRedirected(7, runOf("seven"));
  runs.addRedirected(8, runOf("eight"));
  EXPECT_FALSE(runs.takeRedirected(0).has_value());
  EXPECT_FALSE(runs.takeRedirected(9).has_value());
  const auto found = runs.takeRedirected(8);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->scheme, "eight");
  EXPECT_FALSE(runs.takeRedirected(8).has_value());
  EXPECT_TRUE(runs.takeRedirected(7).has_value());
}

TEST(WaitingRunsTest, OneOfManyThreadsTakesIt) {
  WaitingRuns runs;
  for (int round = 0; round < 100; ++round) {
    const std::string token = runs.add(runOf(""));
    std::atomic<int> taken{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] { taken += runs.take(token).has_value() ? 1 : 0; });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(taken, 1);
  }
}

}  // namespace
}  // namespace idempotency::filter
