#include "source/store/postgres/engine/inbox.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "gtest/gtest.h"

#include "source/store/postgres/wire/poller.h"
#include "test/store/postgres/scripted_operation.h"

namespace idempotency::postgres {
namespace {

// Waits as the store's thread does.
class Sleeper {
public:
  explicit Sleeper(const Inbox& inbox) {
    EXPECT_TRUE(poller_.watch(inbox.fd(), EPOLLIN | EPOLLET, 0));
  }

  bool isWoken(std::chrono::milliseconds patience = std::chrono::milliseconds(0)) {
    return !poller_.wait(std::chrono::steady_clock::now() + patience).empty();
  }

private:
  Poller poller_;
};

size_t takeAll(Inbox& inbox) {
  std::vector<Message> messages;
  inbox.take(messages);
  for (Message& message : messages) {
    std::get<Task>(message)();
  }
  return messages.size();
}

TEST(InboxTest, MessageWakesASleeperOnce) {
  Inbox inbox;
  Sleeper sleeper(inbox);
  int runs = 0;
  ASSERT_TRUE(inbox.fallAsleep(1));
  EXPECT_FALSE(sleeper.isWoken());
  inbox.push([&] { ++runs; });
  inbox.push([&] { ++runs; });
  EXPECT_TRUE(sleeper.isWoken());
  EXPECT_FALSE(sleeper.isWoken());
  EXPECT_EQ(takeAll(inbox), 2U);
  EXPECT_EQ(runs, 2);
  ASSERT_TRUE(inbox.fallAsleep(1));
  inbox.push([&] { ++runs; });
  EXPECT_TRUE(sleeper.isWoken()) << "a second time";
}

TEST(InboxTest, WhoIsAwakeIsNotWokenButMustNotFallAsleepOverAMessage) {
  Inbox inbox;
  Sleeper sleeper(inbox);
  inbox.push([] {});
  EXPECT_FALSE(sleeper.isWoken());
  EXPECT_FALSE(inbox.fallAsleep(1));
  EXPECT_EQ(takeAll(inbox), 1U);
  EXPECT_TRUE(inbox.fallAsleep(1));
  // Woken by something else: what comes now needs no call of the kernel.
  inbox.wakeUp();
  inbox.push([] {});
  EXPECT_FALSE(sleeper.isWoken());
}

TEST(InboxTest, WakeReachesAlsoOneThatIsAboutToFallAsleep) {
  Inbox inbox;
  Sleeper sleeper(inbox);
  inbox.wake();
  EXPECT_TRUE(inbox.fallAsleep(1));
  EXPECT_TRUE(sleeper.isWoken());
}

TEST(InboxTest, OperationsWakeASleeperWhenThereAreEnough) {
  Inbox inbox;
  Sleeper sleeper(inbox);
  ASSERT_TRUE(inbox.fallAsleep(3));
  inbox.push(scripted({}));
  inbox.push(scripted({}));
  EXPECT_FALSE(sleeper.isWoken());
  inbox.push(scripted({}));
  EXPECT_TRUE(sleeper.isWoken());
  std::vector<Message> taken;
  inbox.take(taken);
  EXPECT_EQ(taken.size(), 3U);
}

TEST(InboxTest, OperationsThatAreTooFewMayBeSleptOverAndEnoughMayNot) {
  Inbox inbox;
  inbox.push(scripted({}));
  EXPECT_TRUE(inbox.fallAsleep(2));
  inbox.wakeUp();
  EXPECT_FALSE(inbox.fallAsleep(1));
}

TEST(InboxTest, AnyOtherMessageWakesAtOnceAndIsNeverSleptOver) {
  Inbox inbox;
  Sleeper sleeper(inbox);
  ASSERT_TRUE(inbox.fallAsleep(3));
  inbox.push(Abandon{});
  EXPECT_TRUE(sleeper.isWoken());
  EXPECT_FALSE(inbox.fallAsleep(3)) << "it is still there";
  std::vector<Message> taken;
  inbox.take(taken);
  EXPECT_TRUE(inbox.fallAsleep(3));
}

TEST(InboxTest, LoneOperationIsTakenInPlaceOfWaking) {
  Inbox inbox;
  Sleeper sleeper(inbox);
  EXPECT_FALSE(inbox.add(scripted({}))) << "nobody sleeps";
  std::vector<Message> taken;
  inbox.take(taken);
  ASSERT_TRUE(inbox.fallAsleep(1));
  EXPECT_TRUE(inbox.add(scripted({})));
  EXPECT_NE(inbox.takeLone(store::Deadline()), nullptr);
  EXPECT_EQ(inbox.takeLone(store::Deadline()), nullptr) << "it is gone";
  EXPECT_FALSE(sleeper.isWoken());
  // Whoever took it says that the other sleeps on.
  ASSERT_TRUE(inbox.fallAsleep(1));
  inbox.push(scripted({}));
  EXPECT_TRUE(sleeper.isWoken());
}

TEST(InboxTest, WhatIsNotLoneIsLeftForTheSleeper) {
  Inbox inbox;
  inbox.push(scripted({}));
  inbox.push(scripted({}));
  EXPECT_EQ(inbox.takeLone(store::Deadline()), nullptr);
  std::vector<Message> taken;
  inbox.take(taken);
  EXPECT_EQ(taken.size(), 2U);
  inbox.push(Abandon{});
  EXPECT_EQ(inbox.takeLone(store::Deadline()), nullptr);
}

TEST(InboxTest, LoneOperationThatIsTooLateIsLeftForTheSleeper) {
  Inbox inbox;
  const store::Deadline deadline = store::Deadline() + std::chrono::seconds(1);
  inbox.push(scripted({.deadline = deadline}));
  EXPECT_EQ(inbox.takeLone(deadline), nullptr);
  EXPECT_NE(inbox.takeLone(deadline - std::chrono::milliseconds(1)), nullptr);
}

TEST(InboxTest, NoMessageIsSleptOver) {
  constexpr int Threads = 4;
  constexpr int Each = 20'000;
  Inbox inbox;
  Sleeper sleeper(inbox);
  std::atomic<int> ran{0};
  std::vector<std::thread> pushers;
  for (int i = 0; i < Threads; ++i) {
    pushers.emplace_back([&] {
      for (int n = 0; n < Each; ++n) {
        inbox.push([&] { ++ran; });
        if (n % 64 == 0) {
          std::this_thread::yield();  // The reader gets to sleep now and then.
        }
      }
    });
  }
  bool late = false;
  while (ran < Threads * Each && !late) {
    takeAll(inbox);
    if (inbox.fallAsleep(1) && ran < Threads * Each) {
      late = !sleeper.isWoken(std::chrono::minutes(1));
      inbox.wakeUp();
    }
  }
  EXPECT_FALSE(late) << "a message came and woke nobody";
  for (std::thread& pusher : pushers) {
    pusher.join();
  }
  EXPECT_EQ(ran, Threads * Each);
}

}  // namespace
}  // namespace idempotency::postgres
