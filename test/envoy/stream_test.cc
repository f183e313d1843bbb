// Stream, Headers, Body, ConfigHandle: each call reaches Envoy with the right arguments.
#include <array>
#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/envoy/process.h"
#include "test/envoy/scripted_module.h"
#include "test/support/fake_envoy.h"

namespace idempotency {
namespace {

using envoy::Attribute;
using envoy::Direction;
using envoy::Field;
using envoy::HeadersAction;
using envoy::MetadataSource;
using test::script;
using test::ScriptedFilter;
using ::testing::ElementsAre;
using ::testing::Pair;

// Runs `work` with the stream inside the request-headers hook.
class StreamTest : public ::testing::Test {
protected:
  void inHook(std::function<void(envoy::Stream)> work,
              fake::FieldList headers = {{":method", "POST"}}) {
    script().request_headers = [work = std::move(work)](ScriptedFilter& filter, bool) {
      work(filter.stream());
      return HeadersAction::StopIteration;
    };
    stream_.requestHeaders(std::move(headers), false);
  }

  fake::Config& config() { return config_; }
  fake::Stream& fakeStream() { return stream_; }

private:
  // First: making the config writes to the script.
  struct CleanState {
    CleanState() {
      fake::resetProcess();
      script() = test::Script();
    }
  } clean_state_;
  fake::Config config_{"idempotency", "{}"};
  fake::Stream stream_{config_};
};

TEST_F(StreamTest, HeadersAreReadInAnyCaseAndByIndex) {
  inHook(
      [](envoy::Stream stream) {
        const envoy::Headers headers = stream.requestHeaders();
        EXPECT_EQ(headers.get("Idempotency-Key"), "one");
        EXPECT_EQ(headers.get("idempotency-key", 1), "two");
        EXPECT_EQ(headers.get("idempotency-key", 2), std::nullopt);
        EXPECT_EQ(headers.get("absent"), std::nullopt);
        EXPECT_EQ(headers.get("empty"), "");
        EXPECT_EQ(headers.count("idempotency-key"), 2u);
        EXPECT_EQ(headers.count("absent"), 0u);
        std::vector<std::string> names;
        for (const Field& field : headers.all()) {
          names.push_back(std::string(field.nameView()) + "=" + std::string(field.valueView()));
        }
        EXPECT_THAT(names, ElementsAre("idempotency-key=one", "empty=", "idempotency-key=two"));
      },
      {{"idempotency-key", "one"}, {"empty", ""}, {"idempotency-key", "two"}});
}

TEST_F(StreamTest, LinesAreReadAtOnceByNameAndIndex) {
  for (const size_t others : {0, 29, 30, 200}) {
    fake::FieldList headers = {{":method", "POST"}, {"x-two", "first"}};
    for (size_t i = 0; i < others; ++i) {
      headers.emplace_back("x-other", std::to_string(i));
    }
    headers.emplace_back("x-two", "second");
    inHook(
        [&](envoy::Stream stream) {
          const envoy::HeaderLines lines(stream.requestHeaders());
          EXPECT_EQ(lines.get(":method"), "POST");
          EXPECT_EQ(lines.get("x-two"), "first");
          EXPECT_EQ(lines.get("x-two", 1), "second");
          EXPECT_EQ(lines.get("x-two", 2), std::nullopt);
          EXPECT_EQ(lines.get("x-tw"), std::nullopt);
          EXPECT_EQ(lines.count("x-two"), 2U);
          EXPECT_EQ(lines.count("x-other"), others);
          EXPECT_EQ(lines.count("absent"), 0U);
        },
        headers);
  }
}

TEST_F(StreamTest, LinesOfAMapThatDoesNotExistAreNone) {
  inHook([](envoy::Stream stream) {
    const envoy::HeaderLines lines(stream.responseHeaders());
    EXPECT_EQ(lines.get(":status"), std::nullopt);
    EXPECT_EQ(lines.count(":status"), 0U);
  });
}

TEST_F(StreamTest, HeadersAreChangedAndEmptyValuesRefused) {
  inHook([](envoy::Stream stream) {
    const envoy::Headers headers = stream.requestHeaders();
    EXPECT_TRUE(headers.add("x", "1"));
    EXPECT_TRUE(headers.add("x", "2"));
    EXPECT_FALSE(headers.add("x", ""));
    EXPECT_EQ(headers.count("x"), 2u);
    EXPECT_TRUE(headers.set("x", "3"));
    EXPECT_EQ(headers.count("x"), 1u);
    EXPECT_FALSE(headers.set("x", "")) << "would have removed it";
    EXPECT_EQ(headers.get("x"), "3");
    EXPECT_TRUE(headers.remove("x"));
    EXPECT_EQ(headers.get("x"), std::nullopt);
  });
}

TEST_F(StreamTest, MapsThatDoNotExistYetAreEmptyAndTakeNothing) {
  inHook([](envoy::Stream stream) {
    for (const envoy::Headers& headers :
         {stream.responseHeaders(), stream.responseTrailers(), stream.requestTrailers()}) {
      EXPECT_FALSE(headers.add("x", "1"));
      EXPECT_FALSE(headers.set("x", "1"));
      EXPECT_TRUE(headers.all().empty());
    }
  });
}

TEST_F(StreamTest, BodyIsChangedInPlace) {
  fakeStream().bodies[1] = "hello world";
  inHook([](envoy::Stream stream) {
    const envoy::Body body = stream.buffered(Direction::Request);
    EXPECT_EQ(body.size(), 11u);
    EXPECT_TRUE(body.drain(6));
    EXPECT_TRUE(body.append("!"));
  });
  EXPECT_EQ(fakeStream().bodies[1], "world!");
}

TEST_F(StreamTest, BufferLimitIsReadAndSet) {
  inHook([](envoy::Stream stream) {
    EXPECT_EQ(stream.bufferLimit(), 1u << 20);
    stream.setBufferLimit(77);
  });
  EXPECT_EQ(fakeStream().buffer_limit, 77u);
}

TEST_F(StreamTest, LocalReplyCarriesCodeHeadersBodyDetails) {
  inHook([](envoy::Stream stream) {
    const Field headers[] = {{"content-type", "application/problem+json"}, {"retry-after", "1"}};
    stream.sendLocalReply(409, headers, "{}", "idempotency_in_progress");
  });
  ASSERT_TRUE(fakeStream().reply.has_value());
  const fake::Reply& reply = *fakeStream().reply;
  EXPECT_EQ(reply.code, 409u);
  EXPECT_EQ(reply.body, "{}");
  EXPECT_EQ(reply.details, "idempotency_in_progress");
  EXPECT_THAT(reply.headers, ElementsAre(Pair("content-type", "application/problem+json"),
                                         Pair("retry-after", "1")));
}

TEST_F(StreamTest, StreamedReplyCarriesHeadersDataTrailers) {
  inHook([](envoy::Stream stream) {
    const Field headers[] = {{":status", "201"}, {"empty", ""}};
    stream.sendResponseHeaders(headers, false);
    stream.sendResponseData("a", false);
    stream.sendResponseData("b", false);
    const Field trailers[] = {{"t", "1"}};
    stream.sendResponseTrailers(trailers);
  });
  const fake::Reply& reply = fakeStream().reply.value();
  EXPECT_EQ(reply.code, 201u);
  EXPECT_EQ(reply.body, "ab");
  EXPECT_TRUE(reply.streamed && reply.complete);
  EXPECT_THAT(reply.headers, ElementsAre(Pair(":status", "201"), Pair("empty", "")));
  EXPECT_THAT(reply.trailers, ElementsAre(Pair("t", "1")));
}

TEST_F(StreamTest, FlowCallsReachEnvoy) {
  inHook([](envoy::Stream stream) {
    stream.continueRequest();
    stream.continueResponse();
    stream.continueResponse();
    stream.reset(envoy::StreamReset::LocalReset, "why");
  });
  EXPECT_EQ(fakeStream().continued_request, 1);
  EXPECT_EQ(fakeStream().continued_response, 2);
  EXPECT_EQ(fakeStream().reset_details, "why");
}

TEST_F(StreamTest, AttributesAreAbsentOrOfTheirKind) {
  fakeStream().texts[Attribute::ResponseCodeDetails] = "via_upstream";
  fakeStream().numbers[Attribute::ResponseFlags] = 1u << 14 | 1u << 5;
  fakeStream().flags[Attribute::ConnectionMtls] = true;
  inHook([](envoy::Stream stream) {
    EXPECT_EQ(stream.text(Attribute::ResponseCodeDetails), "via_upstream");
    EXPECT_EQ(stream.text(Attribute::RequestPath), std::nullopt);
    EXPECT_EQ(stream.number(Attribute::UpstreamAttemptCount), std::nullopt);
    EXPECT_EQ(stream.flag(Attribute::ConnectionMtls), true);
    EXPECT_EQ(stream.number(Attribute::ResponseFlags), 1u << 14 | 1u << 5);
    EXPECT_EQ(stream.clusterName(), "upstream");
    EXPECT_EQ(stream.workerIndex(), 0u);
  });
}

TEST_F(StreamTest, MetadataStateFlagsAndTagsAreWrittenAndRead) {
  fakeStream().given_metadata["0:auth:tenant"] = "acme";
  fakeStream().given_numbers["1:auth:level"] = 2.5;
  fakeStream().given_flags["0:auth:admin"] = true;
  inHook([](envoy::Stream stream) {
    EXPECT_EQ(stream.metadata(MetadataSource::Dynamic, "auth", "tenant"), "acme");
    EXPECT_EQ(stream.metadata(MetadataSource::Route, "auth", "tenant"), std::nullopt);
    EXPECT_EQ(stream.metadataNumber(MetadataSource::Route, "auth", "level"), 2.5);
    EXPECT_EQ(stream.metadataNumber(MetadataSource::Dynamic, "auth", "level"), std::nullopt);
    EXPECT_EQ(stream.metadataFlag(MetadataSource::Dynamic, "auth", "admin"), true);
    stream.setMetadata("ns", "text", "t");
    const std::array<envoy::Field, 2> entries = {envoy::Field("one", "1"),
                                                 envoy::Field("two", "2")};
    stream.setMetadata("ns", entries);
    stream.setMetadataNumber("ns", "number", 3);
    stream.setMetadataFlag("ns", "flag", true);
    EXPECT_EQ(stream.filterState("k"), std::nullopt);
    EXPECT_TRUE(stream.setFilterState("k", std::string_view("a\0b", 3)));
    EXPECT_EQ(stream.filterState("k"), std::string_view("a\0b", 3));
    stream.addCustomFlag("IDR");
    stream.setSpanTag("outcome", "replayed");
  });
  EXPECT_EQ(fakeStream().metadata["ns:text"], "t");
  EXPECT_EQ(fakeStream().metadata["ns:one"], "1");
  EXPECT_EQ(fakeStream().metadata["ns:two"], "2");
  EXPECT_EQ(fakeStream().metadata["ns:number"], std::to_string(3.0));
  EXPECT_EQ(fakeStream().metadata["ns:flag"], "true");
  EXPECT_THAT(fakeStream().custom_flags, ElementsAre("IDR"));
  EXPECT_EQ(fakeStream().span_tags["outcome"], "replayed");
}

TEST_F(StreamTest, UntracedRequestTakesNoTag) {
  fakeStream().traced = false;
  inHook([](envoy::Stream stream) { stream.setSpanTag("outcome", "replayed"); });
  EXPECT_TRUE(fakeStream().span_tags.empty());
}

TEST_F(StreamTest, SpanTellsItsIds) {
  fakeStream().trace_id = "trace";
  fakeStream().span_id = "span";
  inHook([](envoy::Stream stream) {
    const auto ids = stream.spanIds();
    ASSERT_TRUE(ids.has_value());
    EXPECT_EQ(ids->trace, "trace");
    EXPECT_EQ(ids->span, "span");
  });
}

TEST_F(StreamTest, SpanWithoutIdsHasEmptyOnes) {
  inHook([](envoy::Stream stream) {
    const auto ids = stream.spanIds();
    ASSERT_TRUE(ids.has_value());
    EXPECT_EQ(ids->trace + ids->span, "");
  });
}

TEST_F(StreamTest, UntracedRequestHasNoSpan) {
  fakeStream().traced = false;
  inHook([](envoy::Stream stream) { EXPECT_FALSE(stream.spanIds().has_value()); });
}

TEST_F(StreamTest, ClearingTheRouteCacheShowsTheNewRoute) {
  const fake::Route before("idempotency", "before");
  const fake::Route after("idempotency", "after");
  fakeStream().route = &before;
  fakeStream().next_route = &after;
  inHook([](envoy::Stream stream) {
    stream.clearRouteCache();
    EXPECT_EQ(static_cast<const test::ScriptedRoute*>(envoy::routeConfig(stream))->json, "after");
  });
  fakeStream().route = nullptr;
}

TEST_F(StreamTest, SideStreamIsSentAndItsEventsArrive) {
  std::vector<std::string> events;
  script().side = [&](const std::string& line) { events.push_back(line); };
  uint64_t id = 0;
  inHook([&](envoy::Stream stream) {
    const Field headers[] = {{":method", "POST"}, {":path", "/"}, {"host", "h"}};
    const auto start = stream.startSideStream(
        {"upstream", headers, "first", std::chrono::milliseconds(1500)}, false);
    ASSERT_TRUE(start.ok());
    id = start.id;
    EXPECT_TRUE(stream.sendSideData(id, " second", false));
    const Field trailers[] = {{"t", "1"}};
    EXPECT_TRUE(stream.sendSideTrailers(id, trailers));
    EXPECT_FALSE(stream.sendSideData(id, "late", true));
    EXPECT_EQ(stream.startSideStream({"elsewhere", headers, "", {}}, true).result,
              envoy::CalloutStart::NoSuchCluster);
    EXPECT_EQ(stream.startCallout({"upstream", {}, "", {}}).result,
              envoy::CalloutStart::MissingHeader);
  });
  const fake::SideRequest& request = fakeStream().side.all.at(0);
  EXPECT_EQ(request.body, "first second");
  EXPECT_EQ(request.timeout_ms, 1500u);
  EXPECT_THAT(request.trailers, ElementsAre(Pair("t", "1")));
  fakeStream().sideHeaders(id, {{":status", "200"}}, false);
  fakeStream().sideData(id, "data", false);
  fakeStream().sideData(id, "", true);
  fakeStream().sideTrailers(id, {{"t", "2"}});
  fakeStream().sideComplete(id);
  EXPECT_THAT(events, ElementsAre("filter headers 1 :status=200 end false",
                                  "filter data 1 'data' end false", "filter data 1 '' end true",
                                  "filter trailers 1 t=2", "filter complete 1"));
}

TEST_F(StreamTest, ResettingASideStreamReportsInsideTheCall) {
  std::vector<std::string> events;
  script().side = [&](const std::string& line) { events.push_back(line); };
  inHook([&](envoy::Stream stream) {
    const Field headers[] = {{":method", "POST"}, {":path", "/"}, {"host", "h"}};
    const auto start = stream.startSideStream({"upstream", headers, "", {}}, false);
    stream.resetSideStream(start.id);
    EXPECT_EQ(events.size(), 1u);
    EXPECT_FALSE(stream.sendSideData(start.id, "x", true));
  });
  EXPECT_THAT(events, ElementsAre("filter reset 1 reason 2"));
}

TEST_F(StreamTest, CalloutsAnswerTheFilter) {
  std::vector<std::string> events;
  script().side = [&](const std::string& line) { events.push_back(line); };
  inHook([&](envoy::Stream stream) {
    const Field headers[] = {{":method", "GET"}, {":path", "/"}, {"host", "h"}};
    EXPECT_TRUE(stream.startCallout({"upstream", headers, "", std::chrono::seconds(1)}).ok());
    EXPECT_TRUE(stream.startCallout({"upstream", headers, "", std::chrono::seconds(1)}).ok());
  });
  fakeStream().finishCallout(2, envoy::CalloutResult::Reset, {{"not", "seen"}}, "nor this");
  fakeStream().finishCallout(1, envoy::CalloutResult::Success, {{":status", "204"}}, "body");
  EXPECT_THAT(events, ElementsAre("filter callout 2 result 1 body ''",
                                  "filter callout 1 result 0 :status=204 body 'body'"));
}

TEST_F(StreamTest, ConfigSideRequestsAnswerTheConfig) {
  std::vector<std::string> events;
  script().side = [&](const std::string& line) { events.push_back(line); };
  const auto handle = static_cast<test::ScriptedConfig*>(script().config)->handle();
  const Field headers[] = {{":method", "GET"}, {":path", "/"}, {"host", "h"}};
  ASSERT_TRUE(handle.startCallout({"upstream", headers, "", {}}).ok());
  ASSERT_TRUE(handle.startSideStream({"upstream", headers, "", {}}, false).ok());
  EXPECT_TRUE(handle.sendSideData(2, "x", false));
  EXPECT_TRUE(handle.sendSideTrailers(2, {}));
  EXPECT_TRUE(handle.startSideStream({"upstream", headers, "", {}}, true).ok());
  config().finishCallout(1, envoy::CalloutResult::Success, {{":status", "200"}}, "b");
  config().sideHeaders(2, {{":status", "200"}}, false);
  config().sideData(2, "d", true);
  config().sideTrailers(2, {});
  config().sideComplete(2);
  handle.resetSideStream(3);
  EXPECT_THAT(events,
              ElementsAre("config callout 1 result 0 :status=200 body 'b'",
                          "config headers 2 :status=200 end false", "config data 2 'd' end true",
                          "config trailers 2", "config complete 2", "config reset 3 reason 2"));
}

// Metrics are defined while a config is made.
struct Metrics {
  std::optional<envoy::Counter> counter;
  std::optional<envoy::LabelledCounter<2>> labelled;
  std::optional<envoy::Gauge> gauge;
  std::optional<envoy::LabelledGauge<1>> labelled_gauge;
  std::optional<envoy::Histogram> histogram;
};

Metrics defineAll(envoy::ConfigHandle handle) {
  return {handle.defineCounter("c"), handle.defineCounter<2>("lc", {"outcome", "route"}),
          handle.defineGauge("g"), handle.defineGauge<1>("lg", {"tenant"}),
          handle.defineHistogram("h")};
}

TEST(MetricsTest, CountFromStreamsAndConfigs) {
  fake::resetProcess();
  script() = test::Script();
  Metrics metrics;
  script().create_config = [&](envoy::ConfigHandle handle) { metrics = defineAll(handle); };
  fake::Config config("idempotency", "{}");
  ASSERT_TRUE(config.loaded());
  script().request_headers = [&](ScriptedFilter& filter, bool) {
    const envoy::Stream stream = filter.stream();
    stream.increment(*metrics.counter);
    stream.increment(*metrics.labelled, {"replayed", "orders"}, 2);
    stream.increment(*metrics.gauge, 5);
    stream.decrement(*metrics.gauge, 2);
    stream.record(*metrics.histogram, 17);
    return HeadersAction::Continue;
  };
  fake::Stream stream(config);
  stream.requestHeaders({}, true);
  const auto handle = static_cast<test::ScriptedConfig*>(script().config)->handle();
  handle.increment(*metrics.counter, 10);
  handle.increment(*metrics.labelled, {"replayed", "orders"});
  handle.increment(*metrics.gauge);
  handle.decrement(*metrics.gauge, 2);
  handle.set(*metrics.labelled_gauge, {"acme"}, 9);
  handle.record(*metrics.histogram, 18);
  EXPECT_EQ(config.counter("c"), 11u);
  EXPECT_EQ(config.counter("lc.outcome.replayed.route.orders"), 3u);
  EXPECT_EQ(config.gauge("g"), 2u);
  EXPECT_EQ(config.gauge("lg.tenant.acme"), 9u);
  EXPECT_THAT(config.histogram("h"), ElementsAre(17, 18));
  handle.set(*metrics.gauge, 40);
  EXPECT_EQ(config.gauge("g"), 40u);
}

TEST(MetricsTest, DefinitionAfterTheConfigIsMadeIsRefused) {
  fake::resetProcess();
  script() = test::Script();
  fake::Config config("idempotency", "{}");
  const auto handle = static_cast<test::ScriptedConfig*>(script().config)->handle();
  EXPECT_EQ(handle.defineCounter("late"), std::nullopt);
}

TEST(SecretsTest, AreReachedOnlyWhereEnvoyHasThem) {
  fake::resetProcess();
  script() = test::Script();
  fake::process().secrets["db"] = "s3cret";
  std::optional<size_t> known, unknown, refused;
  script().create_config = [&](envoy::ConfigHandle handle) {
    known = handle.subscribeSecret("db", "");
    unknown = handle.subscribeSecret("other", "{}");
    refused = handle.subscribeSecret("", "");
  };
  fake::Config config("idempotency", "{}");
  const auto handle = static_cast<test::ScriptedConfig*>(script().config)->handle();
  EXPECT_EQ(refused, std::nullopt);
  if (!envoy::isEnvoy140()) {
    EXPECT_EQ(known, std::nullopt);
    EXPECT_EQ(handle.secret(1), std::nullopt);
    return;
  }
  ASSERT_TRUE(known.has_value() && unknown.has_value());
  EXPECT_EQ(handle.secret(*known), "s3cret");
  EXPECT_EQ(handle.secret(*unknown), std::nullopt) << "not delivered yet";
  script().request_headers = [&](ScriptedFilter& filter, bool) {
    EXPECT_EQ(filter.stream().secret(*known), "s3cret");
    return HeadersAction::Continue;
  };
  fake::Stream stream(config);
  stream.requestHeaders({}, true);
}

TEST(ProcessTest, SpeaksToTheProcess) {
  fake::resetProcess();
  fake::process().log_level = envoy::LogLevel::Warn;
  fake::process().validation_mode = true;
  fake::process().concurrency = 7;
  EXPECT_FALSE(envoy::logEnabled(envoy::LogLevel::Info));
  EXPECT_TRUE(envoy::logEnabled(envoy::LogLevel::Warn));
  envoy::log(envoy::LogLevel::Warn, "hello");
  EXPECT_TRUE(fake::process().logged(envoy::LogLevel::Warn, "hello"));
  EXPECT_TRUE(envoy::isValidationMode());
  EXPECT_EQ(envoy::concurrency(), 7u);
}

}  // namespace
}  // namespace idempotency
