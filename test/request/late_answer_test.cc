#include "source/request/late_answer.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "test/request/task_queue.h"

namespace idempotency::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LateAnswerTest : public ::testing::Test {
protected:
  std::function<void(std::string)> expect() {
    return answer_.expect(worker_->post(),
                          [this](const std::string& answer) { answers_.push_back(answer); });
  }

  std::unique_ptr<TaskQueue> worker_ = std::make_unique<TaskQueue>();
  request::LateAnswer answer_;
  std::vector<std::string> answers_;
};

TEST_F(LateAnswerTest, AnswerFromAnotherThreadWaitsForTheWorker) {
  std::thread([callback = expect()] { callback("yes"); }).join();
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_EQ(worker_->run(), 1u);
  EXPECT_THAT(answers_, ElementsAre("yes"));
}

TEST_F(LateAnswerTest, AnswerToAnEarlierQuestionIsDropped) {
  const auto first = expect();
  const auto second = expect();
  second("second");
  first("first");
  worker_->run();
  EXPECT_THAT(answers_, ElementsAre("second"));
}

TEST_F(LateAnswerTest, AnswerOnItsWayIsDroppedWithTheQuestion) {
  const auto callback = expect();
  callback("on its way");
  answer_.drop();
  worker_->run();
  EXPECT_THAT(answers_, IsEmpty());
}

TEST_F(LateAnswerTest, AnswerAfterTheStreamIsDropped) {
  const auto callback = expect();
  worker_.reset();
  callback("too late");
  EXPECT_THAT(answers_, IsEmpty());
}

TEST_F(LateAnswerTest, AnswerMayHaveNoValueOrSeveral) {
  int sum = 0;
  const std::function<void()> none = answer_.expect(worker_->post(), [&] { sum += 1; });
  none();
  worker_->run();
  const std::function<void(int, int)> two =
      answer_.expect(worker_->post(), [&](int a, int b) { sum += a + b; });
  two(10, 100);
  worker_->run();
  EXPECT_EQ(sum, 111);
}

}  // namespace
}  // namespace idempotency::test
