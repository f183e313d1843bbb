#include "source/runtime/outage_log.h"

#include <gtest/gtest.h>

namespace idempotency::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto Wall = std::chrono::system_clock::time_point(12h + 55min + 23s);

Moment at(std::chrono::seconds passed) {
  return {std::chrono::steady_clock::time_point(1000h) + passed, Wall + passed};
}

// A store that has done this many batches well.
store::StoreStatus works(uint64_t batches) {
  store::StoreStatus status;
  status.batches = batches + 3;
  status.batches_failed = 3;
  status.last_error = "an old error";
  return status;
}

store::StoreStatus refuses() {
  store::StoreStatus status;
  status.refuses = true;
  status.last_error = "127.0.0.1:5432: connection refused";
  return status;
}

TEST(OutageLogTest, OutageHasABeginningACourseAndAnEnd) {
  OutageLog log(10s);
  EXPECT_EQ(log.onStatus(works(1), at(0s)), std::nullopt);
  EXPECT_EQ(log.onClaimFailed("down", at(1s)), "store unavailable since 12:55:24 UTC: down");
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(log.onClaimFailed("down", at(5s)), std::nullopt);
  }
  EXPECT_EQ(log.onStatus(works(1), at(6s)), std::nullopt);
  EXPECT_EQ(log.onClaimFailed("gone", at(11s)),
            "store unavailable since 12:55:24 UTC: gone (31 requests answered 503)");
  EXPECT_EQ(log.onStatus(works(1), at(12s)), std::nullopt);
  EXPECT_EQ(log.onStatus(works(2), at(21s)),
            "store available again after 10s (32 requests answered 503)");
  EXPECT_EQ(log.onStatus(works(3), at(22s)), std::nullopt);
  EXPECT_EQ(log.onClaimFailed("down", at(23s)), "store unavailable since 12:55:46 UTC: down");
}

TEST(OutageLogTest, NamesTheDatabaseErrorWhileTheStoreRefusesBecauseOfIt) {
  OutageLog log(10s);
  (void)log.onStatus(refuses(), at(0s));
  EXPECT_EQ(log.onClaimFailed("the deadline passed", at(1s)),
            "store unavailable since 12:55:24 UTC: 127.0.0.1:5432: connection refused");
  (void)log.onStatus(works(0), at(2s));
  EXPECT_EQ(log.onClaimFailed("the deadline passed", at(11s)),
            "store unavailable since 12:55:24 UTC: the deadline passed (1 request answered 503)");
}

TEST(OutageLogTest, SaysWhatBecameOfTheRequests) {
  OutageLog log(10s);
  log.onFailOpen();  // No outage: not counted.
  (void)log.onClaimFailed("down", at(0s));
  log.onFailOpen();
  (void)log.onOutcomeNotStored("down", at(1s));
  EXPECT_EQ(log.onClaimFailed("down", at(10s)),
            "store unavailable since 12:55:23 UTC: down (1 request ran unprotected, 1 outcome not "
            "stored in time)");
  (void)log.onOutcomeNotStored("down", at(11s));
  EXPECT_EQ(log.onClaimFailed("down", at(20s)),
            "store unavailable since 12:55:23 UTC: down (1 request answered 503, 1 request ran "
            "unprotected, 2 outcomes not stored in time)");
}

TEST(OutageLogTest, LockedRecordIsNoOutageOfTheStore) {
  OutageLog log(10s);
  EXPECT_EQ(log.onOutcomeNotStored("the record is locked", at(0s)),
            "outcomes not stored since 12:55:23 UTC: the record is locked");
  EXPECT_EQ(log.onOutcomeNotStored("the record is locked", at(10s)),
            "outcomes not stored since 12:55:23 UTC: the record is locked (1 outcome not stored in "
            "time)");
  (void)log.onStatus(works(1), at(11s));
  EXPECT_EQ(log.onStatus(works(2), at(20s)),
            "outcomes are stored again after 10s (2 outcomes not stored in time)");
}

TEST(OutageLogTest, OutageEndsOnlyWhenTheStoreHasWorkedAgain) {
  OutageLog log(10s);
  (void)log.onClaimFailed("down", at(0s));
  // This status comes after the failure, so its batches prove nothing.
  EXPECT_EQ(log.onStatus(works(7), at(1s)), std::nullopt);
  EXPECT_EQ(log.onStatus(works(7), at(100s)), std::nullopt) << "nothing was asked of it";
  EXPECT_EQ(log.onStatus(refuses(), at(101s)), std::nullopt);
  store::StoreStatus failing = works(7);
  failing.batches += 5;
  failing.batches_failed += 5;
  EXPECT_EQ(log.onStatus(failing, at(102s)), std::nullopt);
  failing.batches_failed += 1;  // A batch that was under way at the failure.
  EXPECT_EQ(log.onStatus(failing, at(102s)), std::nullopt);
  EXPECT_EQ(log.onStatus(works(8), at(103s)),
            "store available again after 0s (1 request answered 503)");
}

TEST(OutageLogTest, ShortPauseIsNoEnd) {
  OutageLog log(10s);
  (void)log.onClaimFailed("down", at(0s));
  (void)log.onStatus(works(1), at(1s));
  EXPECT_EQ(log.onStatus(works(2), at(9s)), std::nullopt);
  EXPECT_EQ(log.onClaimFailed("down", at(9s)), std::nullopt);
  (void)log.onStatus(works(3), at(10s));
  EXPECT_EQ(log.onStatus(works(4), at(18s)), std::nullopt);
  EXPECT_NE(log.onStatus(works(4), at(19s)), std::nullopt);
}

}  // namespace
}  // namespace idempotency::runtime
