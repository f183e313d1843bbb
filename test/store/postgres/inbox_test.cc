#include "source/store/postgres/inbox.h"

#include <atomic>
#include <poll.h>
#include <thread>

#include "gtest/gtest.h"

namespace idempotency::postgres {
namespace {

bool isReadable(const Inbox& inbox, int milliseconds) {
  pollfd entry = {inbox.fd(), POLLIN, 0};
  return poll(&entry, 1, milliseconds) == 1;
}

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
  int runs = 0;
  ASSERT_TRUE(inbox.fallAsleep());
  EXPECT_FALSE(isReadable(inbox, 0));
  inbox.push([&] { ++runs; });
  inbox.push([&] { ++runs; });
  EXPECT_TRUE(isReadable(inbox, 0));
  inbox.clearWake();
  EXPECT_FALSE(isReadable(inbox, 0));
  EXPECT_EQ(takeAll(inbox), 2U);
  EXPECT_EQ(runs, 2);
}

TEST(InboxTest, WhoIsAwakeIsNotWokenButMustNotFallAsleepOverAMessage) {
  Inbox inbox;
  inbox.push([] {});
  EXPECT_FALSE(isReadable(inbox, 0));
  EXPECT_FALSE(inbox.fallAsleep());
  EXPECT_EQ(takeAll(inbox), 1U);
  EXPECT_TRUE(inbox.fallAsleep());
  // Woken by something else: what comes now needs no call of the kernel.
  EXPECT_EQ(takeAll(inbox), 0U);
  inbox.push([] {});
  EXPECT_FALSE(isReadable(inbox, 0));
}

TEST(InboxTest, WakeReachesAlsoOneThatIsAboutToFallAsleep) {
  Inbox inbox;
  inbox.wake();
  EXPECT_TRUE(inbox.fallAsleep());
  EXPECT_TRUE(isReadable(inbox, 0));
}

TEST(InboxTest, NoMessageIsSleptOver) {
  constexpr int Threads = 4;
  constexpr int Each = 20'000;
  Inbox inbox;
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
    if (inbox.fallAsleep() && ran < Threads * Each) {
      late = !isReadable(inbox, 60'000);
      inbox.clearWake();
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
