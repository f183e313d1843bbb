// The hooks as Envoy calls them: guarding, lifetimes, order.
#include <stdexcept>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/envoy/process.h"
#include "test/envoy/scripted_module.h"
#include "test/support/fake_envoy.h"

namespace idempotency {
namespace {

using envoy::BodyAction;
using envoy::Direction;
using envoy::HeadersAction;
using envoy::LocalReplyAction;
using envoy::LogLevel;
using envoy::TrailersAction;
using test::script;
using test::ScriptedFilter;

class HooksTest : public ::testing::Test {
protected:
  HooksTest() {
    fake::resetProcess();
    script() = test::Script();
  }
  ~HooksTest() override {
    EXPECT_EQ(script().filters_alive, 0) << "a filter leaked";
    EXPECT_EQ(script().routes_alive, 0) << "a route config leaked";
  }

  // Destroys the config, then checks that nothing of it is left.
  void endConfig() {
    config_.reset();
    EXPECT_EQ(script().configs_alive, 0) << "a config leaked";
  }

  fake::Config& config() {
    if (config_ == nullptr) {
      config_ = std::make_unique<fake::Config>("idempotency", "{}");
    }
    return *config_;
  }

private:
  std::unique_ptr<fake::Config> config_;
};

const fake::FieldList Post = {{":method", "POST"}, {":path", "/orders"}};
const fake::FieldList Ok = {{":status", "200"}};

TEST_F(HooksTest, HandshakeNamesTheVersionThatThisEnvoySpeaks) {
  EXPECT_STREQ(envoy::raw::envoy_dynamic_module_on_program_init(),
               envoy::isEnvoy140() ? "v0.2.0" : "v0.1.0");
}

TEST_F(HooksTest, ConfigThatIsRefusedOrThrowsIsNull) {
  script().null_config = true;
  EXPECT_FALSE(fake::Config("idempotency", "{}").loaded());
  script().null_config = false;
  script().create_config = [](envoy::ConfigHandle) { throw std::runtime_error("no such luck"); };
  EXPECT_FALSE(fake::Config("idempotency", "{}").loaded());
  EXPECT_TRUE(fake::process().logged(LogLevel::Error, "no such luck"));
  script().create_config = [](envoy::ConfigHandle) { throw 7; };
  EXPECT_FALSE(fake::Config("idempotency", "{}").loaded());
  EXPECT_TRUE(fake::process().logged(LogLevel::Error, "not a std::exception"));
}

TEST_F(HooksTest, RouteConfigArrivesAtTheStream) {
  const fake::Route route("idempotency", "some json");
  fake::Stream stream(config(), &route);
  std::string seen;
  script().request_headers = [&](ScriptedFilter& filter, bool) {
    const auto* own = static_cast<const test::ScriptedRoute*>(envoy::routeConfig(filter.stream()));
    seen = own == nullptr ? "none" : own->json;
    return HeadersAction::Continue;
  };
  stream.requestHeaders(Post, true);
  EXPECT_EQ(seen, "some json");
  fake::Stream other(config());
  other.requestHeaders(Post, true);
  EXPECT_EQ(seen, "none");
}

TEST_F(HooksTest, RouteConfigThatIsRefusedOrThrowsIsNull) {
  EXPECT_FALSE(fake::Route("idempotency", "refuse").loaded());
  EXPECT_FALSE(fake::Route("idempotency", "throw").loaded());
  EXPECT_TRUE(fake::process().logged(LogLevel::Error, "route config throws"));
}

TEST_F(HooksTest, HookResultsReachEnvoyAsTheyAre) {
  script().request_headers = [](ScriptedFilter&, bool) { return HeadersAction::StopIteration; };
  script().request_body = [](ScriptedFilter&, bool) { return BodyAction::StopIterationAndBuffer; };
  script().request_trailers = [](ScriptedFilter&) { return TrailersAction::StopIteration; };
  script().response_headers = [](ScriptedFilter&, bool) {
    return HeadersAction::StopAllIterationAndWatermark;
  };
  script().response_body = [](ScriptedFilter&, bool) { return BodyAction::StopIterationNoBuffer; };
  script().response_trailers = [](ScriptedFilter&) { return TrailersAction::StopIteration; };
  script().local_reply = [](ScriptedFilter&, uint32_t, std::string_view) {
    return LocalReplyAction::ContinueAndResetStream;
  };
  fake::Stream stream(config());
  EXPECT_EQ(stream.requestHeaders(Post, false), HeadersAction::StopIteration);
  EXPECT_EQ(stream.requestBody("x", false), BodyAction::StopIterationAndBuffer);
  EXPECT_EQ(stream.requestTrailers({}), TrailersAction::StopIteration);
  EXPECT_EQ(stream.responseHeaders(Ok, false), HeadersAction::StopAllIterationAndWatermark);
  EXPECT_EQ(stream.responseBody("x", false), BodyAction::StopIterationNoBuffer);
  EXPECT_EQ(stream.responseTrailers({}), TrailersAction::StopIteration);
  EXPECT_EQ(stream.localReply(503, "overflow"), LocalReplyAction::ContinueAndResetStream);
}

TEST_F(HooksTest, FilterThatCannotBeMadeRefusesEveryRequest) {
  for (const bool throws : {false, true}) {
    script().null_filter = !throws;
    script().create_filter = [&] {
      if (throws) {
        throw std::bad_alloc();
      }
    };
    fake::Stream stream(config());
    EXPECT_EQ(stream.requestHeaders(Post, true), HeadersAction::StopIteration);
    ASSERT_TRUE(stream.reply.has_value());
    EXPECT_EQ(stream.reply->code, 500u);
    EXPECT_EQ(stream.reply->details, "idempotency_internal_error");
  }
  EXPECT_EQ(config().counter("hook_exception"), 1u);
}

// A hook of each kind throws: the request is refused, the exception counted, and no other hook runs
// but onStreamComplete.
struct ThrowCase {
  const char* name;
  std::function<void()> arm;
  std::function<void(fake::Stream&)> drive;
};

class HookThrowTest : public HooksTest, public ::testing::WithParamInterface<ThrowCase> {};

[[noreturn]] void boom() {
  throw std::runtime_error("boom");
}

TEST_P(HookThrowTest, FailsTheRequestClosedAndCounts) {
  bool completed = false;
  int later = 0;
  script().stream_complete = [&](ScriptedFilter&) { completed = true; };
  script().watermark = [&](ScriptedFilter&) { ++later; };
  GetParam().arm();
  {
    fake::Stream stream(config());
    GetParam().drive(stream);
    ASSERT_TRUE(stream.reply.has_value());
    EXPECT_EQ(stream.reply->code, 500u);
    EXPECT_EQ(config().counter("hook_exception"), 1u);
    EXPECT_TRUE(fake::process().logged(LogLevel::Error, "boom"));
    EXPECT_TRUE(completed);
    if (stream.alive()) {
      stream.aboveHighWatermark();
    }
  }
  EXPECT_EQ(later, 0);
  endConfig();
}

INSTANTIATE_TEST_SUITE_P(
    Hooks, HookThrowTest,
    ::testing::Values(
        ThrowCase{"RequestHeaders",
                  [] { script().request_headers = [](auto&&...) -> HeadersAction { boom(); }; },
                  [](fake::Stream& s) {
                    EXPECT_EQ(s.requestHeaders(Post, true), HeadersAction::StopIteration);
                  }},
        ThrowCase{"RequestBody",
                  [] { script().request_body = [](auto&&...) -> BodyAction { boom(); }; },
                  [](fake::Stream& s) {
                    s.requestHeaders(Post, false);
                    EXPECT_EQ(s.requestBody("x", true), BodyAction::StopIterationNoBuffer);
                  }},
        ThrowCase{"RequestTrailers",
                  [] { script().request_trailers = [](auto&&...) -> TrailersAction { boom(); }; },
                  [](fake::Stream& s) {
                    s.requestHeaders(Post, false);
                    EXPECT_EQ(s.requestTrailers({}), TrailersAction::StopIteration);
                  }},
        ThrowCase{"ResponseHeaders",
                  [] { script().response_headers = [](auto&&...) -> HeadersAction { boom(); }; },
                  [](fake::Stream& s) {
                    s.requestHeaders(Post, true);
                    EXPECT_EQ(s.responseHeaders(Ok, true), HeadersAction::StopIteration);
                  }},
        ThrowCase{"ResponseBody",
                  [] { script().response_body = [](auto&&...) -> BodyAction { boom(); }; },
                  [](fake::Stream& s) {
                    s.requestHeaders(Post, true);
                    s.responseHeaders(Ok, false);
                    EXPECT_EQ(s.responseBody("x", true), BodyAction::StopIterationNoBuffer);
                  }},
        ThrowCase{"ResponseTrailers",
                  [] { script().response_trailers = [](auto&&...) -> TrailersAction { boom(); }; },
                  [](fake::Stream& s) {
                    s.requestHeaders(Post, true);
                    s.responseHeaders(Ok, false);
                    EXPECT_EQ(s.responseTrailers({}), TrailersAction::StopIteration);
                  }},
        ThrowCase{"Scheduled",
                  [] {
                    script().request_headers = [](ScriptedFilter& filter, bool) {
                      filter.mailbox()->post([] { boom(); });
                      filter.mailbox()->post([] { ADD_FAILURE() << "ran after the failure"; });
                      return HeadersAction::StopIteration;
                    };
                  },
                  [](fake::Stream& s) {
                    s.requestHeaders(Post, true);
                    s.runScheduled();
                  }},
        ThrowCase{
            "Callout",
            [] {
              script().side = [](const std::string&) { boom(); };
              script().request_headers = [](ScriptedFilter& filter, bool) {
                const envoy::Field headers[] = {{":method", "GET"}, {":path", "/"}, {"host", "h"}};
                EXPECT_TRUE(filter.stream().startCallout({"upstream", headers, "", {}}).ok());
                return HeadersAction::StopIteration;
              };
            },
            [](fake::Stream& s) {
              s.requestHeaders(Post, true);
              s.finishCallout(1, envoy::CalloutResult::Reset, {}, "");
            }}),
    [](const auto& info) { return info.param.name; });

TEST_F(HooksTest, ThrowInLocalReplyOrCompletionIsCountedAndSendsNothing) {
  script().local_reply = [](auto&&...) -> LocalReplyAction { boom(); };
  script().stream_complete = [](ScriptedFilter&) { boom(); };
  {
    fake::Stream stream(config());
    stream.requestHeaders(Post, true);
    EXPECT_EQ(stream.localReply(504, "response_timeout"), LocalReplyAction::Continue);
    EXPECT_FALSE(stream.reply.has_value());
    EXPECT_EQ(stream.responseHeaders(Ok, true), HeadersAction::Continue)
        << "the reply of others would hang";
  }
  EXPECT_EQ(config().counter("hook_exception"), 2u);
}

TEST_F(HooksTest, FilterOutlivesTheHookThatEndsItsStream) {
  for (const auto time : {fake::DestroyTime::InsideCall, fake::DestroyTime::AfterHook}) {
    fake::process().destroy_time = time;
    bool touched = false;
    script().request_headers = [&](ScriptedFilter& filter, bool) {
      filter.mailbox()->post([&] {
        filter.stream().sendLocalReply(409, {}, "no", "test");
        EXPECT_EQ(script().filters_alive, 1);
        touched = filter.mailbox() != nullptr;
      });
      filter.mailbox()->post([] { ADD_FAILURE() << "ran after the end of the stream"; });
      return HeadersAction::StopIteration;
    };
    fake::Stream stream(config());
    stream.requestHeaders(Post, true);
    stream.runScheduled();
    EXPECT_TRUE(touched);
    EXPECT_FALSE(stream.alive());
    EXPECT_EQ(script().filters_alive, 0);
  }
}

TEST_F(HooksTest, OwnReplyRunsLocalReplyAndCompletionInsideTheCall) {
  std::vector<std::string> order;
  script().request_headers = [&](ScriptedFilter& filter, bool) {
    order.emplace_back("before");
    filter.stream().sendLocalReply(422, {}, "", "test");
    order.emplace_back("after");
    return HeadersAction::StopIteration;
  };
  script().local_reply = [&](ScriptedFilter&, uint32_t code, std::string_view details) {
    order.push_back("reply " + std::to_string(code) + " " + std::string(details));
    return LocalReplyAction::Continue;
  };
  script().stream_complete = [&](ScriptedFilter&) { order.emplace_back("complete"); };
  fake::Stream stream(config());
  stream.requestHeaders(Post, true);
  EXPECT_THAT(order, ::testing::ElementsAre("before", "reply 422 test", "complete", "after"));
}

TEST_F(HooksTest, WholeBodyIsBufferedThenReceivedInTheBodyHookAndBufferedElsewhere) {
  std::vector<std::string> bodies;
  std::vector<size_t> sizes;
  const auto collect = [&](ScriptedFilter& filter) {
    std::string whole;
    for (const std::string_view chunk : filter.stream().wholeBody(Direction::Request)) {
      whole += chunk;
    }
    bodies.push_back(whole);
    sizes.push_back(filter.stream().wholeBodySize(Direction::Request));
  };
  script().request_headers = [](ScriptedFilter&, bool) { return HeadersAction::StopIteration; };
  script().request_body = [&](ScriptedFilter& filter, bool) {
    collect(filter);
    return BodyAction::StopIterationAndBuffer;
  };
  script().request_trailers = [&](ScriptedFilter& filter) {
    collect(filter);
    return TrailersAction::StopIteration;
  };
  fake::Stream stream(config());
  stream.chunk_size = 2;
  stream.requestHeaders(Post, false);
  stream.requestBody("abc", false);
  stream.requestBody("defgh", false);
  stream.requestTrailers({});
  stream.received_is_buffered = true;
  stream.requestBody("", true);
  EXPECT_THAT(bodies, ::testing::ElementsAre("abc", "abcdefgh", "abcdefgh", "abcdefgh"));
  EXPECT_THAT(sizes, ::testing::ElementsAre(3, 8, 8, 8));
}

TEST_F(HooksTest, ReceivedChunkIsLookedAtOnlyInsideTheBodyHookOfItsDirection) {
  size_t in_other_body_hook = 0;
  size_t after_throw = 0;
  script().response_body = [&](ScriptedFilter& filter, bool) {
    in_other_body_hook = filter.stream().wholeBodySize(Direction::Request);
    return BodyAction::Continue;
  };
  script().request_body = [&](ScriptedFilter&, bool) -> BodyAction { boom(); };
  script().stream_complete = [&](ScriptedFilter& filter) {
    after_throw = filter.stream().wholeBodySize(Direction::Request);
  };
  fake::Stream stream(config());
  stream.requestHeaders(Post, false);
  std::string& received = stream.bodies[static_cast<size_t>(envoy::BodyKind::ReceivedRequest)];
  received = "not a chunk of this hook";
  stream.responseBody("abc", false);
  EXPECT_EQ(in_other_body_hook, 0u);
  stream.requestBody("de", true);
  received = "gone";
  stream.complete();
  EXPECT_EQ(after_throw, 0u);
}

TEST_F(HooksTest, ConfigEventsRunOnTheConfigAndSurviveThrowing) {
  int ran = 0;
  config();
  const auto mailbox = script().config->mailbox();
  EXPECT_TRUE(mailbox->post([] { boom(); }));
  EXPECT_TRUE(mailbox->post([&] { ++ran; }));
  EXPECT_EQ(config().runScheduled(), 2);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(config().counter("hook_exception"), 1u);
  endConfig();
  EXPECT_FALSE(mailbox->post([&] { ++ran; }));
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace idempotency
