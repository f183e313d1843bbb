#include "source/operator_api/store_desk.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/support/memory_operator_store.h"

namespace idempotency::operator_api {
namespace {

using namespace std::chrono_literals;

StoreCall auditCall() {
  return [](store::OperatorStore& store) -> absl::StatusOr<ApiAnswer> {
    if (const auto page = store.audit({}, std::nullopt, 1); !page.ok()) {
      return page.status();
    }
    return jsonAnswer("{}");
  };
}

// An answer that comes from the desk's thread.
struct Awaited {
  std::promise<ApiAnswer> promise;
  std::future<ApiAnswer> future = promise.get_future();

  DeskJob job(
      StoreCall call, std::function<bool()> wanted = [] { return true; }) {
    return {std::move(call), std::move(wanted),
            [this](ApiAnswer answer) { promise.set_value(std::move(answer)); }};
  }
};

class StoreDeskTest : public ::testing::Test {
protected:
  std::unique_ptr<StoreDesk> makeDesk(uint32_t max_waiting, std::chrono::milliseconds patience) {
    return std::make_unique<StoreDesk>(
        [this]() -> absl::StatusOr<std::unique_ptr<store::OperatorStore>> {
          ++opened_;
          if (!open_error_.ok()) {
            return open_error_;
          }
          return test::makeMemoryOperatorStore(memory_);
        },
        [this](const std::string& line) { warnings_.push_back(line); }, max_waiting, patience);
  }

  test::OperatorMemory memory_;
  absl::Status open_error_;  // Set while no job is waiting.
  std::atomic<int> opened_{0};
  std::vector<std::string> warnings_;  // Read when the desk has answered.
};

TEST_F(StoreDeskTest, ManyCallsUseOneStore) {
  const auto desk = makeDesk(8, 1h);
  for (int i = 0; i < 3; ++i) {
    Awaited awaited;
    ASSERT_TRUE(desk->submit(awaited.job(auditCall())));
    EXPECT_EQ(awaited.future.get().status, 200);
  }
  EXPECT_EQ(opened_, 1);
}

TEST_F(StoreDeskTest, AStoreThatFailsIsReportedAndOpenedAgain) {
  const auto desk = makeDesk(8, 1h);
  memory_.before_call = [] { return absl::UnavailableError("the connection was lost"); };
  Awaited failing;
  ASSERT_TRUE(desk->submit(failing.job(auditCall())));
  const ApiAnswer answer = failing.future.get();
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("the connection was lost"), std::string::npos);
  EXPECT_EQ(warnings_, std::vector<std::string>{"the connection was lost"});

  {
    const std::lock_guard lock(memory_.mutex);
    memory_.before_call = nullptr;
  }
  Awaited working;
  ASSERT_TRUE(desk->submit(working.job(auditCall())));
  EXPECT_EQ(working.future.get().status, 200);
  EXPECT_EQ(opened_, 2);
}

TEST_F(StoreDeskTest, AStoreThatDoesNotOpenIsReported) {
  open_error_ = absl::FailedPreconditionError("there is no such file");
  const auto desk = makeDesk(8, 1h);
  Awaited awaited;
  ASSERT_TRUE(desk->submit(awaited.job(auditCall())));
  EXPECT_NE(awaited.future.get().body.find("there is no such file"), std::string::npos);
}

// A call that holds the desk's thread until it is let go.
class StoreDeskHeldTest : public StoreDeskTest {
protected:
  void hold(StoreDesk& desk) {
    ASSERT_TRUE(desk.submit(held_.job([this](store::OperatorStore&) -> absl::StatusOr<ApiAnswer> {
      begun_.set_value();
      let_go_.get_future().wait();
      return jsonAnswer("{}");
    })));
    begun_.get_future().wait();
  }

  Awaited held_;
  std::promise<void> begun_;
  std::promise<void> let_go_;
};

TEST_F(StoreDeskHeldTest, MoreThanMayWaitAreRefusedAtOnce) {
  const auto desk = makeDesk(2, 1h);
  hold(*desk);
  Awaited first;
  Awaited second;
  Awaited third;
  EXPECT_TRUE(desk->submit(first.job(auditCall())));
  EXPECT_TRUE(desk->submit(second.job(auditCall())));
  EXPECT_FALSE(desk->submit(third.job(auditCall())));
  let_go_.set_value();
  EXPECT_EQ(first.future.get().status, 200);
  EXPECT_EQ(second.future.get().status, 200);
  Awaited fourth;
  EXPECT_TRUE(desk->submit(fourth.job(auditCall())));
  EXPECT_EQ(fourth.future.get().status, 200);
}

TEST_F(StoreDeskHeldTest, ACallWithoutAClientIsNotMade) {
  const auto desk = makeDesk(8, 1h);
  hold(*desk);
  Awaited gone;
  ASSERT_TRUE(desk->submit(gone.job(auditCall(), [] { return false; })));
  Awaited last;
  ASSERT_TRUE(desk->submit(last.job([](store::OperatorStore&) { return jsonAnswer("{}"); })));
  let_go_.set_value();
  last.future.get();
  EXPECT_EQ(gone.future.wait_for(0s), std::future_status::timeout);
  EXPECT_TRUE(memory_.calls.empty());
}

TEST_F(StoreDeskHeldTest, WhatHasWaitedForTooLongIsNotDone) {
  const auto desk = makeDesk(8, 0ms);
  // Held before its own time is judged.
  ASSERT_TRUE(desk->submit(held_.job(auditCall(), [this] {
    begun_.set_value();
    let_go_.get_future().wait();
    return false;
  })));
  begun_.get_future().wait();
  Awaited late;
  ASSERT_TRUE(desk->submit(late.job(auditCall())));
  const auto submitted = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() == submitted) {
  }
  let_go_.set_value();
  EXPECT_EQ(late.future.get().status, 503);
  EXPECT_TRUE(memory_.calls.empty());
}

TEST_F(StoreDeskHeldTest, TheEndForgetsWhatWaits) {
  auto desk = makeDesk(8, 1h);
  hold(*desk);
  Awaited waiting;
  ASSERT_TRUE(desk->submit(waiting.job(auditCall())));
  std::thread end([&] { desk.reset(); });
  let_go_.set_value();
  end.join();
  EXPECT_EQ(held_.future.get().status, 200);
}

}  // namespace
}  // namespace idempotency::operator_api
