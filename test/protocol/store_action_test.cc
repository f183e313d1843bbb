#include "source/protocol/store_action.h"

#include <string>

#include <gtest/gtest.h>

namespace idempotency {
namespace {

using enum StoreActionKind;

ResponseFacts response(int status) {
  return {.status = status, .judged_status = status};
}

StoreAction complete(Tombstone tombstone = Tombstone::None) {
  return {Complete, tombstone};
}

TEST(StoreActionTest, WithoutAResponseTheOutcomeDecides) {
  // A status that was seen must not matter.
  for (const int status : {0, 200, 401, 503}) {
    EXPECT_EQ(storeAction(Policy{}, Outcome::Unknown, response(status)), StoreAction{MarkUnknown});
    EXPECT_EQ(storeAction(Policy{}, Outcome::NeverSent, response(status)), StoreAction{Release});
    EXPECT_EQ(storeAction(Policy{}, Outcome::Redirected, response(status)), StoreAction{Leave});
  }
}

TEST(StoreActionTest, EveryStatusByDefault) {
  for (int status = 200; status <= 599; ++status) {
    const bool retryable = status == 408 || status == 425 || status == 429 || status >= 500;
    const bool released = status == 401 || status == 403 || status == 407;
    const StoreAction want = retryable  ? StoreAction{Fail}
                             : released ? StoreAction{Release}
                                        : complete();
    EXPECT_EQ(storeAction(Policy{}, Outcome::Answered, response(status)), want) << status;
  }
}

TEST(StoreActionTest, EmptyListsStoreEverything) {
  Policy policy;
  policy.retryable_statuses = {};
  policy.released_statuses = {};
  for (int status = 200; status <= 599; ++status) {
    EXPECT_EQ(storeAction(policy, Outcome::Answered, response(status)), complete()) << status;
  }
}

TEST(StoreActionTest, ListsArePerRoute) {
  Policy policy;
  policy.retryable_statuses = {};
  policy.retryable_statuses.addRange(404, 404);
  policy.released_statuses = {};
  policy.released_statuses.addRange(500, 599);
  EXPECT_EQ(storeAction(policy, Outcome::Answered, response(404)), StoreAction{Fail});
  EXPECT_EQ(storeAction(policy, Outcome::Answered, response(503)), StoreAction{Release});
  EXPECT_EQ(storeAction(policy, Outcome::Answered, response(429)), complete());
}

TEST(StoreActionTest, GrpcStatusIsJudgedAndHttpStatusStored) {
  ResponseFacts facts = response(200);
  facts.judged_status = 503;
  EXPECT_EQ(storeAction(Policy{}, Outcome::Answered, facts), StoreAction{Fail});
  facts.judged_status = 404;
  EXPECT_EQ(storeAction(Policy{}, Outcome::Answered, facts), complete());
}

TEST(StoreActionTest, ReleasedStatusAfterEnvoysOwnRetryIsUnknown) {
  ResponseFacts facts = response(401);
  facts.attempts = 2;
  EXPECT_EQ(storeAction(Policy{}, Outcome::Answered, facts), StoreAction{MarkUnknown});
  facts.attempts = 1;
  EXPECT_EQ(storeAction(Policy{}, Outcome::Answered, facts), StoreAction{Release});
}

TEST(StoreActionTest, RetryableStatusAfterEnvoysOwnRetryStaysRetryable) {
  ResponseFacts facts = response(503);
  facts.attempts = 3;
  EXPECT_EQ(storeAction(Policy{}, Outcome::Answered, facts), StoreAction{Fail});
}

TEST(StoreActionTest, BodyUpToTheLimitIsStored) {
  Policy policy;
  policy.max_response_bytes = 100;
  ResponseFacts facts = response(200);
  facts.body_bytes = 100;
  EXPECT_EQ(storeAction(policy, Outcome::Answered, facts), complete());
  facts.body_bytes = 101;
  EXPECT_EQ(storeAction(policy, Outcome::Answered, facts), complete(Tombstone::TooLarge));
}

TEST(StoreActionTest, LimitOfZeroStoresEmptyBodies) {
  Policy policy;
  policy.max_response_bytes = 0;
  ResponseFacts facts = response(204);
  EXPECT_EQ(storeAction(policy, Outcome::Answered, facts), complete());
  facts.body_bytes = 1;
  EXPECT_EQ(storeAction(policy, Outcome::Answered, facts), complete(Tombstone::TooLarge));
}

TEST(StoreActionTest, ResponseThatEnvoyCutLeavesATombstone) {
  EXPECT_EQ(storeAction(Policy{}, Outcome::CutByEnvoy, response(200)),
            complete(Tombstone::TooLarge));
  EXPECT_EQ(storeAction(Policy{}, Outcome::CutByEnvoy, response(500)), StoreAction{Fail});
}

TEST(StoreActionTest, RouteThatStoresNothingLeavesATombstone) {
  Policy policy;
  policy.store_response = false;
  policy.max_response_bytes = 1;
  ResponseFacts facts = response(201);
  facts.body_bytes = 5;
  facts.storable = false;
  EXPECT_EQ(storeAction(policy, Outcome::Answered, facts), complete(Tombstone::Secret));
  EXPECT_EQ(storeAction(policy, Outcome::Answered, response(503)), StoreAction{Fail});
}

TEST(StoreActionTest, ResponseThatMustNotBeReplayedLeavesATombstone) {
  ResponseFacts facts = response(200);
  facts.storable = false;
  EXPECT_EQ(storeAction(Policy{}, Outcome::Answered, facts), complete(Tombstone::Unstorable));
  for (const int status : {0, 101, 199, 600, -1}) {
    EXPECT_EQ(storeAction(Policy{}, Outcome::Answered, response(status)),
              complete(Tombstone::Unstorable))
        << status;
  }
}

TEST(StoreActionTest, OutcomeThatIsNoneIsUnknown) {
  EXPECT_EQ(storeAction(Policy{}, static_cast<Outcome>(77), response(200)),
            StoreAction{MarkUnknown});
  EXPECT_EQ(StoreAction{}.kind, MarkUnknown);
}

}  // namespace
}  // namespace idempotency
