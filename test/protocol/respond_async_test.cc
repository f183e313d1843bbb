#include "source/protocol/respond_async.h"

#include <chrono>
#include <optional>

#include "gtest/gtest.h"

namespace idempotency::protocol {
namespace {

using namespace std::chrono_literals;

std::optional<std::chrono::milliseconds> waitWith(RespondAsync mode,
                                                  const http::Preferences& preferences) {
  Policy policy;
  policy.detached = DetachedRules{.respond_async = mode, .max_wait = 5s};
  return asyncWait(policy, preferences);
}

TEST(RespondAsyncTest, PolicyDecidesWhetherTheClientMayAsk) {
  const http::Preferences asks{.respond_async = true};
  EXPECT_EQ(waitWith(RespondAsync::Never, asks), std::nullopt);
  EXPECT_EQ(waitWith(RespondAsync::OnRequest, asks), 0ms);
  EXPECT_EQ(waitWith(RespondAsync::Always, asks), 0ms);
  EXPECT_EQ(waitWith(RespondAsync::Never, {}), std::nullopt);
  EXPECT_EQ(waitWith(RespondAsync::OnRequest, {}), std::nullopt);
  EXPECT_EQ(waitWith(RespondAsync::OnRequest, {.wait = 3s}), std::nullopt);
  EXPECT_EQ(waitWith(RespondAsync::Always, {}), 0ms);
  EXPECT_EQ(asyncWait(Policy(), asks), std::nullopt) << "a run that is not detached";
}

TEST(RespondAsyncTest, ClientWaitsAsLongAsItWishesUpToALimit) {
  EXPECT_EQ(waitWith(RespondAsync::OnRequest, {.respond_async = true, .wait = 3s}), 3s);
  EXPECT_EQ(waitWith(RespondAsync::OnRequest, {.respond_async = true, .wait = 5s}), 5s);
  EXPECT_EQ(waitWith(RespondAsync::OnRequest, {.respond_async = true, .wait = 6s}), 5s);
  EXPECT_EQ(waitWith(RespondAsync::Always, {.wait = 3s}), 3s);
}

}  // namespace
}  // namespace idempotency::protocol
