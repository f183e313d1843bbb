#include "source/runtime/replay_cache.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::runtime {
namespace {

using namespace std::chrono_literals;

const store::Deadline Start{1000h};

protocol::Identity identity(int number) {
  return {"acme", "pay", "key-" + std::to_string(number)};
}

std::shared_ptr<const CompletedRecord> record(size_t body_bytes, store::Deadline live_until) {
  auto made = std::make_shared<CompletedRecord>();
  made->live_until = live_until;
  made->response.status = 200;
  made->response.body.assign(body_bytes, 'x');
  return made;
}

TEST(ReplayCacheTest, GivesWhatWasPutInForItsIdentityAlone) {
  ReplayCache cache({});
  const auto kept = record(10, Start + 1h);
  cache.insert(identity(1), kept, Start);
  EXPECT_EQ(cache.find(identity(1), Start), kept);
  EXPECT_EQ(cache.find(identity(2), Start), nullptr);
  EXPECT_EQ(cache.find({"other", "pay", "key-1"}, Start), nullptr);
  EXPECT_EQ(cache.find({"acme", "refund", "key-1"}, Start), nullptr);
  EXPECT_EQ(cache.entries(), 1u);
}

TEST(ReplayCacheTest, NothingIsGivenPastTheRecordsLife) {
  ReplayCache cache({.max_age = 1h});
  cache.insert(identity(1), record(1, Start + 10s), Start);
  EXPECT_NE(cache.find(identity(1), Start + 9999ms), nullptr);
  EXPECT_EQ(cache.find(identity(1), Start + 10s), nullptr);
  EXPECT_EQ(cache.entries(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
  cache.insert(identity(1), record(1, Start), Start);
  EXPECT_EQ(cache.entries(), 0u) << "already over";
}

TEST(ReplayCacheTest, NothingIsGivenPastItsAgeHoweverOftenItIsUsed) {
  ReplayCache cache({.max_age = 60s});
  cache.insert(identity(1), record(1, Start + 24h), Start);
  for (auto time = 0s; time < 60s; time += 1s) {
    ASSERT_NE(cache.find(identity(1), Start + time), nullptr);
  }
  EXPECT_EQ(cache.find(identity(1), Start + 60s), nullptr);
}

TEST(ReplayCacheTest, BytesStayWithinTheBoundAndTheLeastUsedGoes) {
  ReplayCache cache({.max_bytes = 80'000});
  const protocol::Identity hot = identity(0);
  cache.insert(hot, record(1000, Start + 1h), Start);
  for (int i = 1; i < 1000; ++i) {
    cache.insert(identity(i), record(1000, Start + 1h), Start);
    ASSERT_LE(cache.bytes(), 80'000u);
    ASSERT_NE(cache.find(hot, Start), nullptr) << i;
  }
  EXPECT_GT(cache.entries(), 8u);
  EXPECT_EQ(cache.find(identity(1), Start), nullptr);
}

TEST(ReplayCacheTest, WhatIsTooLargeIsNotKeptAndZeroIsOff) {
  ReplayCache small({.max_bytes = 8000});
  small.insert(identity(1), record(1000, Start + 1h), Start);
  EXPECT_EQ(small.entries(), 0u);
  ReplayCache off({.max_bytes = 0});
  off.insert(identity(1), record(0, Start + 1h), Start);
  EXPECT_EQ(off.find(identity(1), Start), nullptr);
}

TEST(ReplayCacheTest, NewEntryReplacesTheOld) {
  ReplayCache cache({});
  cache.insert(identity(1), record(10, Start + 1h), Start);
  const uint64_t bytes = cache.bytes();
  const auto second = record(10, Start + 1h);
  cache.insert(identity(1), second, Start);
  EXPECT_EQ(cache.find(identity(1), Start), second);
  EXPECT_EQ(cache.entries(), 1u);
  EXPECT_EQ(cache.bytes(), bytes);
}

TEST(CompletedRecordTest, ReplayIsPutTogetherOnceAndShownToAllThreads) {
  const auto kept = record(10, Start + 1h);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      ASSERT_TRUE(kept->replay().has_value());
      EXPECT_EQ(&*kept->replay(), &*kept->replay());
      EXPECT_EQ(kept->replay()->body, std::string(10, 'x'));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(CompletedRecordTest, ResponseThatMustNotBeSentHasNoReplay) {
  CompletedRecord record;
  record.response.status = 100;
  EXPECT_FALSE(record.replay().has_value());
}

TEST(ReplayCacheTest, ManyThreads) {
  ReplayCache cache({.max_bytes = 100'000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        cache.insert(identity((i * 7 + t) % 100), record(100, Start + 1h), Start);
        const auto found = cache.find(identity(i % 100), Start);
        ASSERT_TRUE(found == nullptr || found->response.body.size() == 100);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(cache.bytes(), 100'000u);
}

}  // namespace
}  // namespace idempotency::runtime
