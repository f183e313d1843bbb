// Tasks from other threads: each runs at most once, in order, on the worker, never after the
// stream.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "test/envoy/scripted_module.h"
#include "test/support/fake_envoy.h"

namespace idempotency {
namespace {

using envoy::HeadersAction;
using envoy::Mailbox;
using test::script;
using test::ScriptedFilter;

class MailboxTest : public ::testing::Test {
protected:
  MailboxTest() {
    fake::resetProcess();
    script() = test::Script();
    script().request_headers = [this](ScriptedFilter& filter, bool) {
      mailbox_ = filter.mailbox();
      return HeadersAction::StopIteration;
    };
    stream_ = std::make_unique<fake::Stream>(config_);
    stream_->requestHeaders({{":method", "POST"}}, true);
  }

  fake::Config config_{"idempotency", "{}"};
  std::unique_ptr<fake::Stream> stream_;
  std::shared_ptr<Mailbox> mailbox_;
};

TEST_F(MailboxTest, TasksRunInOrderOnTheWorkerOnly) {
  std::vector<int> ran;
  const auto worker = std::this_thread::get_id();
  std::thread poster([&] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(mailbox_->post([&, i] {
        EXPECT_EQ(std::this_thread::get_id(), worker);
        ran.push_back(i);
      }));
    }
  });
  poster.join();
  EXPECT_TRUE(ran.empty()) << "nothing runs before Envoy delivers the event";
  stream_->runScheduled();
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2}));
}

TEST_F(MailboxTest, TaskMayPostAnother) {
  int ran = 0;
  mailbox_->post([&] {
    ++ran;
    mailbox_->post([&] { ++ran; });
  });
  stream_->runScheduled();
  EXPECT_EQ(ran, 2);
}

TEST_F(MailboxTest, WaitingTasksAreDestroyedUnrunWithTheStream) {
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = token;
  EXPECT_TRUE(mailbox_->post([token] { ADD_FAILURE() << "ran"; }));
  token.reset();
  EXPECT_FALSE(watch.expired());
  stream_.reset();
  EXPECT_TRUE(watch.expired());
  EXPECT_FALSE(mailbox_->post([] { ADD_FAILURE() << "ran"; }));
}

TEST_F(MailboxTest, MailboxOutlivesTheStreamOnAnotherThread) {
  std::thread holder([mailbox = std::move(mailbox_)]() mutable {
    mailbox->post([] {});
    mailbox.reset();
  });
  stream_.reset();
  holder.join();
}

// Run under TSAN: posts race with delivery and with the end of the stream.
TEST_F(MailboxTest, EveryAcceptedTaskRunsOnceOrDiesWithTheStream) {
  constexpr int Threads = 4;
  constexpr int Posts = 500;
  auto accepted = std::make_shared<std::atomic<int>>(0);
  auto ran = std::make_shared<std::atomic<int>>(0);
  auto destroyed = std::make_shared<std::atomic<int>>(0);
  struct Count {
    std::shared_ptr<std::atomic<int>> counter;
    ~Count() { ++*counter; }
  };
  std::vector<std::thread> posters;
  for (int t = 0; t < Threads; ++t) {
    posters.emplace_back([=, mailbox = mailbox_] {
      for (int i = 0; i < Posts; ++i) {
        auto count = std::make_shared<Count>(Count{destroyed});
        if (mailbox->post([ran, count] { ++*ran; })) {
          ++*accepted;
        }
      }
    });
  }
  while (ran->load() < Posts) {
    stream_->runScheduled();
    std::this_thread::yield();
  }
  stream_.reset();
  const int ran_at_end = ran->load();
  for (std::thread& poster : posters) {
    poster.join();
  }
  EXPECT_EQ(ran->load(), ran_at_end) << "a task ran after the stream";
  EXPECT_GE(accepted->load(), ran->load());
  // The temporary that initialises each Count dies once more.
  EXPECT_EQ(destroyed->load(), 2 * Threads * Posts) << "a task was not destroyed";
}

}  // namespace
}  // namespace idempotency
