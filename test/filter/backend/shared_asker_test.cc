#include "source/filter/backend/shared_asker.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "source/envoy/filter.h"
#include "test/support/fake_envoy.h"

namespace idempotency::filter {
namespace {

// The part of the filter's config that asks.
class AskingConfig : public envoy::FilterFactory {
public:
  explicit AskingConfig(envoy::ConfigHandle handle)
      : FilterFactory(handle), asker_(std::make_shared<ConfigAsker>(handle)) {
    SharedAsker::ofProcess().attach(asker_, mailbox());
  }
  ~AskingConfig() override { SharedAsker::ofProcess().detach(*asker_); }

  std::unique_ptr<envoy::Filter> createFilter(envoy::Stream) override { return nullptr; }
  void onSideHeaders(uint64_t id, std::span<const envoy::Field> headers, bool end) override {
    asker_->onSideHeaders(id, headers, end);
  }
  void onSideData(uint64_t id, std::span<const envoy::raw::Bytes> data, bool end) override {
    asker_->onSideData(id, data, end);
  }
  void onSideComplete(uint64_t id) override { asker_->onSideComplete(id); }
  void onSideReset(uint64_t id, envoy::SideStreamReset reason) override {
    asker_->onSideReset(id, reason);
  }

private:
  const std::shared_ptr<ConfigAsker> asker_;
};

class SharedAskerTest : public ::testing::Test {
protected:
  SharedAskerTest() { fake::resetProcess(); }

  static std::unique_ptr<fake::Config> newConfig() {
    auto config = std::make_unique<fake::Config>("idempotency", "{}");
    EXPECT_TRUE(config->loaded());
    return config;
  }

  void ask(std::string path = "/attempts/7", size_t max_answer_bytes = 100) {
    SharedAsker::ofProcess().ask(
        {.cluster = "upstream",
         .method = "GET",
         .path = std::move(path),
         .authority = "ledger",
         .headers = {{"x-reason", "reconcile"}},
         .timeout = std::chrono::milliseconds(2000),
         .max_answer_bytes = max_answer_bytes},
        [this](message::OutcomeAnswer answer) { answers_.push_back(std::move(answer)); });
  }

  // The only answer so far.
  message::OutcomeAnswer theAnswer() {
    EXPECT_EQ(answers_.size(), 1U);
    return answers_.empty() ? message::OutcomeAnswer() : answers_.back();
  }

  std::vector<message::OutcomeAnswer> answers_;
};

TEST_F(SharedAskerTest, QuestionIsSentAndTheWholeAnswerComesBack) {
  const auto config = newConfig();
  ask();
  EXPECT_TRUE(config->side.all.empty()) << "the main thread asks, not the reconciler's";
  config->runScheduled();
  ASSERT_EQ(config->side.all.size(), 1U);
  const fake::SideRequest sent = config->side.all.front();
  EXPECT_EQ(sent.cluster, "upstream");
  EXPECT_EQ(sent.headers, (fake::FieldList{{":method", "GET"},
                                           {":path", "/attempts/7"},
                                           {"host", "ledger"},
                                           {"x-reason", "reconcile"}}));
  EXPECT_EQ(sent.timeout_ms, 2000U);
  EXPECT_TRUE(sent.ended);

  config->sideHeaders(sent.id, {{":status", "200"}, {"content-type", "text/x"}}, false);
  config->sideData(sent.id, "it ", false);
  config->sideData(sent.id, "ran", true);
  EXPECT_TRUE(answers_.empty()) << "not whole yet";
  config->sideComplete(sent.id);
  const message::OutcomeAnswer answer = theAnswer();
  EXPECT_EQ(answer.failure, "");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers, (protocol::FieldList{{"content-type", "text/x"}}));
  EXPECT_EQ(answer.body, "it ran");
}

TEST_F(SharedAskerTest, AnswerThatIsCutShortIsNone) {
  const auto config = newConfig();
  ask();
  config->runScheduled();
  const uint64_t id = config->side.all.front().id;
  config->sideHeaders(id, {{":status", "200"}}, false);
  config->sideData(id, "it r", false);
  config->sideReset(id);
  EXPECT_NE(theAnswer().failure, "");
  EXPECT_EQ(theAnswer().status, 0);
}

TEST_F(SharedAskerTest, AnswerBeyondTheLimitIsNoneAndEnds) {
  const auto config = newConfig();
  ask("/attempts/7", 6);
  ask("/attempts/8", 6);
  config->runScheduled();
  for (const uint64_t id : {config->side.all[0].id, config->side.all[1].id}) {
    config->sideHeaders(id, {{":status", "200"}}, false);
    config->sideData(id, "it ran", false);
  }
  EXPECT_TRUE(answers_.empty()) << "just as large as it may be";
  config->sideData(config->side.all[0].id, "!", false);
  EXPECT_EQ(theAnswer().failure, "the answer has more than 6 bytes");
  EXPECT_TRUE(config->side.all[0].reset);
  config->sideComplete(config->side.all[1].id);
  EXPECT_EQ(answers_.back().body, "it ran");
}

TEST_F(SharedAskerTest, QuestionThatEnvoyCannotSendHasNoAnswer) {
  const auto config = newConfig();
  config->side.clusters.clear();
  ask();
  config->runScheduled();
  EXPECT_EQ(theAnswer().failure, "Envoy has no such cluster");
}

TEST_F(SharedAskerTest, WithoutAnyConfigThereIsNoAnswer) {
  ask();
  EXPECT_NE(theAnswer().failure, "");
}

// When Envoy destroys the old config, on whichever thread, it has nothing left to end there.
TEST_F(SharedAskerTest, NewConfigTakesOverOpenQuestions) {
  const auto old_config = newConfig();
  ask();
  old_config->runScheduled();
  const uint64_t old_id = old_config->side.all.front().id;
  old_config->sideHeaders(old_id, {{":status", "404"}}, false);

  const auto new_config = newConfig();
  EXPECT_TRUE(old_config->side.all.front().reset);
  EXPECT_EQ(old_config->side.find(old_id), nullptr) << "still open in the old config";
  EXPECT_TRUE(answers_.empty()) << "nobody has answered";
  new_config->runScheduled();
  ASSERT_EQ(new_config->side.all.size(), 1U);
  EXPECT_EQ(new_config->side.all.front().headers, old_config->side.all.front().headers);

  const uint64_t id = new_config->side.all.front().id;
  new_config->sideHeaders(id, {{":status", "200"}}, false);
  new_config->sideData(id, "it ran", true);
  new_config->sideComplete(id);
  EXPECT_EQ(theAnswer().status, 200);
  EXPECT_EQ(theAnswer().body, "it ran");
}

TEST_F(SharedAskerTest, LaterQuestionsGoThroughTheNewestConfigThatThereIs) {
  const auto old_config = newConfig();
  auto new_config = newConfig();
  ask();
  EXPECT_EQ(old_config->runScheduled(), 0);
  new_config->runScheduled();
  EXPECT_EQ(new_config->side.all.size(), 1U);
  // Envoy refuses the update for another reason.
  new_config.reset();
  ask();
  old_config->runScheduled();
  EXPECT_EQ(old_config->side.all.size(), 1U);
}

// The reconciler asked while the new config was being created: nothing of the old one may be open.
TEST_F(SharedAskerTest, QuestionThatTheOldConfigHasNotSentYetIsTheNewOnes) {
  const auto old_config = newConfig();
  ask();
  const auto new_config = newConfig();
  old_config->runScheduled();
  EXPECT_TRUE(old_config->side.all.empty());
  new_config->runScheduled();
  ASSERT_EQ(new_config->side.all.size(), 1U);
  new_config->sideHeaders(new_config->side.all.front().id, {{":status", "404"}}, true);
  new_config->sideComplete(new_config->side.all.front().id);
  EXPECT_EQ(theAnswer().status, 404);
}

// The config goes before its task has run: the reconciler's own time limit ends the question.
TEST_F(SharedAskerTest, QuestionOfAConfigThatGoesIsLostWithoutHarm) {
  auto config = newConfig();
  ask();
  config.reset();
  EXPECT_TRUE(answers_.empty());
}

}  // namespace
}  // namespace idempotency::filter

namespace idempotency::envoy {

std::unique_ptr<FilterFactory> createFilterFactory(ConfigHandle handle, std::string_view,
                                                   std::string_view) {
  return std::make_unique<filter::AskingConfig>(handle);
}

std::unique_ptr<RouteConfig> createRouteConfig(std::string_view, std::string_view) {
  return nullptr;
}

}  // namespace idempotency::envoy
