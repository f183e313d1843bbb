// The operator filter in a fake Envoy, on a store in memory. What the API answers is in
// test/operator_api; here is what concerns threads, streams and bodies.
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "source/operator_api/record_id.h"
#include "test/support/fake_envoy.h"
#include "test/support/memory_operator_store.h"

namespace idempotency::filter {
namespace {

using envoy::raw::BodyAction;
using envoy::raw::HeadersAction;

constexpr char Json[] = R"({
  "store": {"sqlite": {"path": "/tmp/never-opened.db"}},
  "actor": {"sources": [{"header": "x-operator"}]},
  "limits": {"max_request_bytes": 1024, "max_waiting": 1}
})";

class OperatorFilterTest : public ::testing::Test {
protected:
  OperatorFilterTest() {
    fake::resetProcess();
    test::resetOperatorMemory();
    store::Record record;
    record.state = protocol::RecordState::Unknown;
    record.attempt = 5;
    test::operatorMemory().records[identity_] = record;
    config_ = std::make_unique<fake::Config>("idempotency_operator", Json);
    EXPECT_TRUE(config_->loaded());
  }

  static fake::FieldList get(const std::string& path) {
    return {{":method", "GET"}, {":path", "/idempotency/v1" + path}};
  }
  fake::FieldList bust() const {
    return {{":method", "POST"},
            {":path", "/idempotency/v1/records/" + operator_api::recordId(identity_) + "/bust"},
            {"content-type", "application/json"},
            {"x-operator", "alice"}};
  }

  // Delivers what the store's thread posts, until there is an answer.
  static void awaitReply(fake::Stream& stream) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!stream.reply.has_value() && std::chrono::steady_clock::now() < end) {
      stream.runScheduled();
      std::this_thread::yield();
    }
    ASSERT_TRUE(stream.reply.has_value());
  }

  static size_t calls() {
    const std::lock_guard lock(test::operatorMemory().mutex);
    return test::operatorMemory().calls.size();
  }

  const protocol::Identity identity_{"acme", "pay", "key-1"};
  std::unique_ptr<fake::Config> config_;
};

// The store's thread is held in a call.
class OperatorFilterHeldTest : public OperatorFilterTest {
protected:
  OperatorFilterHeldTest() {
    test::operatorMemory().before_call = [this] {
      if (calls() == 1) {
        begun_.set_value();
        let_go_.get_future().wait();
      }
      return absl::OkStatus();
    };
  }

  void hold(fake::Stream& stream) {
    stream.requestHeaders(get("/audit"), true);
    begun_.get_future().wait();
  }

  std::promise<void> begun_;
  std::promise<void> let_go_;
};

TEST_F(OperatorFilterTest, ARequestIsAnsweredAndNeverForwarded) {
  fake::Stream stream(*config_);
  EXPECT_EQ(stream.requestHeaders(get("/records"), true), HeadersAction::StopIteration);
  awaitReply(stream);
  EXPECT_EQ(stream.reply->code, 200);
  EXPECT_TRUE(stream.reply->complete);
  EXPECT_NE(stream.reply->body.find("\"state\":\"unknown\""), std::string::npos);
  EXPECT_EQ(stream.continued_request, 0);
}

TEST_F(OperatorFilterTest, ABodyMayComeInPieces) {
  fake::Stream stream(*config_);
  test::operatorMemory().records[identity_].state = protocol::RecordState::Completed;
  EXPECT_EQ(stream.requestHeaders(bust(), false), HeadersAction::StopIteration);
  EXPECT_EQ(stream.requestBody(R"({"attempt": "5",)", false), BodyAction::StopIterationAndBuffer);
  stream.requestBody(R"( "reason": "r"})", true);
  awaitReply(stream);
  EXPECT_EQ(stream.reply->code, 200) << stream.reply->body;
  EXPECT_TRUE(test::operatorMemory().records.empty());
  EXPECT_EQ(test::operatorMemory().audit.back().actor, "alice");
}

TEST_F(OperatorFilterTest, TrailersEndABodyToo) {
  fake::Stream stream(*config_);
  stream.requestHeaders(bust(), false);
  stream.requestBody("{", false);
  stream.requestTrailers({{"a", "b"}});
  ASSERT_TRUE(stream.reply.has_value());
  EXPECT_EQ(stream.reply->code, 400);
}

TEST_F(OperatorFilterTest, ABodyOverTheLimitIsRefusedOnceAndTheRestIsDropped) {
  fake::Stream stream(*config_);
  stream.requestHeaders(bust(), false);
  EXPECT_EQ(stream.requestBody(std::string(1025, ' '), false), BodyAction::StopIterationNoBuffer);
  ASSERT_TRUE(stream.reply.has_value());
  EXPECT_EQ(stream.reply->code, 413);
  EXPECT_EQ(calls(), 0);
}

TEST_F(OperatorFilterHeldTest, AWorkerDoesNotWaitForTheStore) {
  fake::Stream slow(*config_);
  hold(slow);
  EXPECT_FALSE(slow.reply.has_value());
  fake::Stream other(*config_);
  other.requestHeaders(get("/nothing"), true);
  EXPECT_EQ(other.reply->code, 404);
  let_go_.set_value();
  awaitReply(slow);
  EXPECT_EQ(slow.reply->code, 200);
}

TEST_F(OperatorFilterHeldTest, MoreRequestsThanMayWaitAreRefusedAtOnce) {
  fake::Stream slow(*config_);
  hold(slow);
  fake::Stream waiting(*config_);
  waiting.requestHeaders(get("/audit"), true);
  EXPECT_FALSE(waiting.reply.has_value());
  fake::Stream refused(*config_);
  refused.requestHeaders(get("/audit"), true);
  ASSERT_TRUE(refused.reply.has_value());
  EXPECT_EQ(refused.reply->code, 503);
  EXPECT_NE(refused.reply->body.find("overloaded"), std::string::npos);
  let_go_.set_value();
  awaitReply(waiting);
  EXPECT_EQ(waiting.reply->code, 200);
}

TEST_F(OperatorFilterHeldTest, AChangeWhoseClientHasLeftIsNotMade) {
  fake::Stream slow(*config_);
  hold(slow);
  {
    fake::Stream leaving(*config_);
    leaving.requestHeaders(bust(), false);
    leaving.requestBody(R"({"attempt": "5", "reason": "r"})", true);
    leaving.complete();
    leaving.destroy();
  }
  let_go_.set_value();
  awaitReply(slow);
  // Answered only after what came before it.
  uint32_t code = 503;
  while (code == 503) {
    fake::Stream last(*config_);
    last.requestHeaders(get("/healthz"), true);
    awaitReply(last);
    code = last.reply->code;
  }
  const std::lock_guard lock(test::operatorMemory().mutex);
  EXPECT_EQ(test::operatorMemory().audit.size(), 0);
  for (const std::string& call : test::operatorMemory().calls) {
    EXPECT_NE(call, "change");
  }
}

TEST_F(OperatorFilterHeldTest, AnAnswerForAStreamThatIsGoneIsDropped) {
  {
    fake::Stream leaving(*config_);
    hold(leaving);
  }
  let_go_.set_value();
  fake::Stream next(*config_);
  next.requestHeaders(get("/healthz"), true);
  awaitReply(next);
  EXPECT_EQ(next.reply->code, 200);
}

TEST_F(OperatorFilterTest, ConfigsWithEqualSettingsShareTheStore) {
  fake::Config other("idempotency_operator", Json);
  for (fake::Config* config : {config_.get(), &other}) {
    fake::Stream stream(*config);
    stream.requestHeaders(get("/healthz"), true);
    awaitReply(stream);
  }
  EXPECT_EQ(test::operatorMemory().opened, 1);
}

TEST_F(OperatorFilterTest, ValidationOpensNothing) {
  fake::process().validation_mode = true;
  const fake::Config config("idempotency_operator", Json);
  EXPECT_TRUE(config.loaded());
  EXPECT_EQ(test::operatorMemory().opened, 0);
}

}  // namespace
}  // namespace idempotency::filter
