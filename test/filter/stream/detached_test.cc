// Detached runs: a client's stream and its run's, on a fake Envoy with a private listener. Both
// workers are the test's thread.
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/filter/stream/waiting_runs.h"
#include "test/filter/filter_rig.h"
#include "test/support/allocation_counter.h"
#include "test/support/private_listener.h"

namespace idempotency::test {
namespace {

using envoy::raw::Attribute;
using envoy::raw::BodyAction;
using envoy::raw::HeadersAction;
using envoy::raw::TrailersAction;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

using StreamPtr = std::unique_ptr<fake::Stream>;

const auto RequestMap = static_cast<size_t>(envoy::raw::HeaderMap::Request);
const auto ResponseMap = static_cast<size_t>(envoy::raw::HeaderMap::Response);

class DetachedTest : public FilterRig {
protected:
  DetachedTest() {
    folder_ = "/tmp/runs-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    useListener();
    usePolicy(R"("detached": {}, "max_response_bytes": 1000)");
    listener_.emplace(path());
  }
  ~DetachedTest() override {
    listener_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string path() const { return folder_ + "/s"; }
  // Further fields of private_listener.
  void useListener(const std::string& fields = "") {
    useFilter(fmt::format(R"("private_listener": {{"path": "{}"{}}})", path(), fields));
  }

  // The stream on the private listener, with the connection that keeps it alive.
  struct Run {
    std::unique_ptr<PrivateListener::Run> connection;
    StreamPtr stream;

    // Envoy ends the stream, as it does when its connection ends or its response is complete.
    void end(const std::string& details = "") {
      if (!details.empty()) {
        stream->texts[Attribute::ResponseCodeDetails] = details;
      }
      stream->complete();
      stream->destroy();
      connection.reset();
    }
  };

  // The next connection, with the whole request.
  std::unique_ptr<PrivateListener::Run> accept(fake::Stream& client) {
    std::unique_ptr<PrivateListener::Run> run;
    settleUntil(client, [&] {
      run = run != nullptr ? std::move(run) : listener_->accept();
      return run != nullptr && run->read();
    });
    return run;
  }
  StreamPtr newRunStream() { return std::make_unique<fake::Stream>(run_config_, &route()); }
  // Its run takes over: the upstream gets the request.
  Run start(fake::Stream& client) {
    Run run{accept(client), newRunStream()};
    EXPECT_EQ(
        run.stream->requestHeaders(run.connection->headers, run.connection->ends_with_headers),
        HeadersAction::Continue);
    if (!run.connection->ends_with_headers) {
      EXPECT_EQ(run.stream->requestBody(run.connection->body, run.connection->trailers.empty()),
                BodyAction::Continue);
    }
    if (!run.connection->trailers.empty()) {
      EXPECT_EQ(run.stream->requestTrailers(run.connection->trailers), TrailersAction::Continue);
    }
    return run;
  }
  // A run has been taken over before: the listener is known to have the filter.
  void prove() {
    const StreamPtr client = send("{}", {{"idempotency-key", "\"proof-0123456789\""}});
    Run run = start(*client);
    respond(*run.stream, "200", "ok");
    client->runScheduled();
    run.end();
  }
  void expectAnswer(fake::Stream& client, uint32_t code, const std::string& details) {
    settleUntil(client, [&] { return client.reply.has_value(); });
    ASSERT_TRUE(client.reply.has_value());
    EXPECT_EQ(client.reply->code, code);
    EXPECT_EQ(client.reply->details, details);
  }
  // However the run ended, this is all that was written for its claim.
  void expectEnded(const std::string& how) {
    EXPECT_EQ(ended(how), 1u) << how;
    uint64_t all = 0;
    for (const char* const kind :
         {"completed", "tombstone", "failed_retryable", "released", "unknown"}) {
      all += ended(kind);
    }
    EXPECT_EQ(all, 1u);
    EXPECT_EQ(run_config_.gauge("detached.running"), 0u);
    EXPECT_EQ(run_config_.gauge("in_flight"), 0u);
  }
  // The backend counts, on its client's config.
  uint64_t ended(const std::string& how) { return config().counter("ended." + how); }
  void expectReplay(const std::string& body) {
    const StreamPtr retry = send();
    ASSERT_TRUE(retry->reply.has_value());
    EXPECT_EQ(retry->reply->body, body);
    EXPECT_THAT(retry->reply->headers, Contains(Pair("idempotent-replayed", "true")));
  }

  std::string folder_;
  std::optional<PrivateListener> listener_;
  fake::Config run_config_{"idempotency_run", ""};
};

// --- The request

TEST_F(DetachedTest, RunHasTheClientsRequest) {
  const StreamPtr client = newStream();
  client->requestHeaders(request({{":scheme", "https"},
                                  {":authority", "api.example.com"},
                                  {"x-more", "1"},
                                  {"idempotency-run", "forged"}}),
                         false);
  client->requestBody("{\"amount\"", false);
  client->requestBody(": 10}", false);
  client->requestTrailers({{"checksum", "1"}});
  settle(*client);
  Run run = start(*client);
  const fake::FieldList& headers = run.stream->maps[RequestMap];
  EXPECT_EQ(header(headers, ":method"), "POST");
  EXPECT_EQ(header(headers, ":path"), "/payments");
  EXPECT_EQ(header(headers, ":scheme"), "https");
  EXPECT_EQ(header(headers, ":authority"), "api.example.com");
  EXPECT_EQ(header(headers, "x-more"), "1");
  EXPECT_EQ(header(headers, "idempotency-attempt"), std::to_string(record()->attempt));
  EXPECT_THAT(headers, Not(Contains(Key("idempotency-run")))) << "the upstream does not learn it";
  EXPECT_EQ(run.connection->body, "{\"amount\": 10}");
  EXPECT_THAT(run.connection->trailers, Contains(Pair("checksum", "1")));
  EXPECT_EQ(client->continued_request, 0) << "it runs there, and not here";
  EXPECT_FALSE(client->reply.has_value());
  EXPECT_EQ(stateOf(), protocol::RecordState::InProgress);
  EXPECT_EQ(run_config_.counter("detached.runs"), 1u);
  EXPECT_EQ(run_config_.gauge("detached.running"), 1u);
  EXPECT_EQ(config().gauge("in_flight"), 0u) << "the run has a place of its own";
}

// Its route is chosen by the path that the client sent.
TEST_F(DetachedTest, RunHasThePathThatHttp1CannotHave) {
  const StreamPtr client = newStream();
  client->requestHeaders(request({{":path", "/payments?q=\xc3\xa9"}}), true);
  settle(*client);
  Run run{accept(*client), newRunStream()};
  EXPECT_EQ(header(run.connection->headers, ":path"), "/payments?q=%C3%A9");
  run.stream->requestHeaders(run.connection->headers, true);
  EXPECT_EQ(header(run.stream->maps[RequestMap], ":path"), "/payments?q=\xc3\xa9");
  EXPECT_EQ(run.stream->route, run.stream->next_route) << "it is chosen again";
}

TEST_F(DetachedTest, RunOfARequestWithoutABodyHasNone) {
  const StreamPtr client = send("");
  const Run run = start(*client);
  EXPECT_TRUE(run.connection->ends_with_headers);
}

// --- The response

TEST_F(DetachedTest, ResponseIsStoredThenTheClientGetsAllOfIt) {
  const StreamPtr client = send();
  Run run = start(*client);
  store().pause();
  run.stream->texts[Attribute::ResponseCodeDetails] = "via_upstream";
  run.stream->numbers[Attribute::UpstreamAttemptCount] = 1;
  EXPECT_EQ(run.stream->responseHeaders(
                {{":status", "201"}, {"content-length", "8"}, {"x-made", "yes"}}, false),
            HeadersAction::StopIteration);
  EXPECT_EQ(run.stream->responseBody("half", false), BodyAction::StopIterationAndBuffer);
  EXPECT_EQ(run.stream->responseBody("half", false), BodyAction::StopIterationAndBuffer);
  EXPECT_EQ(run.stream->responseTrailers({{"checksum", "9"}}), TrailersAction::StopIteration);
  run.stream->runScheduled();
  client->runScheduled();
  EXPECT_FALSE(client->reply.has_value());
  store().resume();
  settle(*run.stream);
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(run.stream->continued_response, 1);
  // What goes on there is an empty body.
  EXPECT_EQ(run.stream->bodies[3], "");
  EXPECT_THAT(run.stream->maps[ResponseMap], Not(Contains(Key("content-length"))));

  client->runScheduled();
  ASSERT_TRUE(client->reply.has_value());
  EXPECT_TRUE(client->reply->complete);
  EXPECT_EQ(client->reply->code, 201u);
  EXPECT_EQ(client->reply->body, "halfhalf");
  EXPECT_THAT(client->reply->headers, Contains(Pair("x-made", "yes")));
  EXPECT_THAT(client->reply->headers, Contains(Pair("content-length", "8")));
  EXPECT_THAT(header(client->reply->headers, "idempotency-key-expires"), HasSubstr("GMT"));
  EXPECT_THAT(client->reply->trailers, Contains(Pair("checksum", "9")));
  EXPECT_EQ(client->metadata["envoy-idempotency:outcome"], "stored");

  run.end();
  expectEnded("completed");
  EXPECT_EQ(run_config_.counter("detached.finished_alone"), 0u);
  EXPECT_EQ(run_config_.counter("detached.lost"), 0u);
  expectReplay("halfhalf");
}

TEST_F(DetachedTest, ResponseWithoutABodyEndsWithItsHeaders) {
  const StreamPtr client = send();
  Run run = start(*client);
  respond(*run.stream, "204", "");
  client->runScheduled();
  ASSERT_TRUE(client->reply.has_value());
  EXPECT_TRUE(client->reply->complete);
  EXPECT_EQ(client->reply->code, 204u);
  run.end();
  expectEnded("completed");
}

TEST_F(DetachedTest, LongResponseStreamsAtTheClientsPace) {
  const StreamPtr client = send();
  Run run = start(*client);
  responseHeaders(*run.stream, "200", false);
  EXPECT_EQ(run.stream->responseBody(std::string(600, 'a'), false),
            BodyAction::StopIterationAndBuffer);
  EXPECT_EQ(run.stream->responseBody(std::string(600, 'b'), false), BodyAction::Continue)
      << "it exceeds max_response_bytes";
  EXPECT_EQ(run.stream->bodies[3], "");
  client->runScheduled();
  ASSERT_TRUE(client->reply.has_value());
  EXPECT_EQ(client->reply->body, std::string(600, 'a') + std::string(600, 'b'));
  EXPECT_FALSE(client->reply->complete);

  client->aboveHighWatermark();
  EXPECT_EQ(run.stream->responseBody("c", false), BodyAction::StopIterationAndWatermark);
  EXPECT_EQ(run.stream->responseBody("d", false), BodyAction::StopIterationAndWatermark);
  client->runScheduled();
  EXPECT_EQ(client->reply->body.size(), 1200u);
  client->belowLowWatermark();
  run.stream->runScheduled();
  EXPECT_EQ(run.stream->continued_response, 1);
  EXPECT_EQ(run.stream->bodies[3], "");
  client->runScheduled();
  EXPECT_EQ(client->reply->body.substr(1200), "cd");

  EXPECT_EQ(run.stream->responseBody("e", true), BodyAction::StopIterationAndBuffer)
      << "its end is held until the outcome is written";
  client->runScheduled();
  EXPECT_FALSE(client->reply->complete);
  settle(*run.stream);
  client->runScheduled();
  EXPECT_EQ(client->reply->body.substr(1200), "cde");
  EXPECT_TRUE(client->reply->complete);
  run.end();
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(send()->reply->details, "idempotency_response_unavailable");
}

// What is on its way to the client's worker is bounded, too.
TEST_F(DetachedTest, LongResponseWaitsForTheClientsWorker) {
  const StreamPtr client = send();
  Run run = start(*client);
  responseHeaders(*run.stream, "200", false, {{"content-length", "900000"}});
  int pieces = 0;
  while (run.stream->responseBody(std::string(100'000, 'x'), false) == BodyAction::Continue) {
    ASSERT_LT(++pieces, 9) << "it never waits";
  }
  client->runScheduled();
  run.stream->runScheduled();
  client->runScheduled();
  EXPECT_EQ(client->reply->body.size(), 100'000u * (pieces + 1));
}

// As when responses of other streams have filled the client's connection.
TEST_F(DetachedTest, LongResponseWaitsForAClientThatWasSlowBeforeItsRequest) {
  const StreamPtr client = newStream();
  client->aboveHighWatermark();
  client->requestHeaders(request({}), true);
  settle(*client);
  Run run = start(*client);
  responseHeaders(*run.stream, "200", false, {{"content-length", "2000"}});
  EXPECT_EQ(run.stream->responseBody("a", false), BodyAction::StopIterationAndWatermark);
  client->belowLowWatermark();
  run.stream->runScheduled();
  EXPECT_EQ(run.stream->continued_response, 1);
}

// Envoy tells of the stream's buffer and of the connection's.
TEST_F(DetachedTest, LongResponseWaitsForEveryFullBuffer) {
  const StreamPtr client = send();
  Run run = start(*client);
  responseHeaders(*run.stream, "200", false, {{"content-length", "2000"}});
  client->aboveHighWatermark();
  client->aboveHighWatermark();
  EXPECT_EQ(run.stream->responseBody("a", false), BodyAction::StopIterationAndWatermark);
  client->belowLowWatermark();
  run.stream->runScheduled();
  EXPECT_EQ(run.stream->continued_response, 0);
  client->belowLowWatermark();
  run.stream->runScheduled();
  EXPECT_EQ(run.stream->continued_response, 1);
}

TEST_F(DetachedTest, EndOfALongResponseFollowsWhatWaits) {
  for (const bool with_trailers : {false, true}) {
    const std::string key = with_trailers ? "\"trailers-0123456\"" : "\"no-trailers-0123\"";
    const StreamPtr client = send("{}", {{"idempotency-key", key}});
    Run run = start(*client);
    responseHeaders(*run.stream, "200", false, {{"content-length", "2000"}});
    client->aboveHighWatermark();
    EXPECT_EQ(run.stream->responseBody(std::string(1999, 'x'), false),
              BodyAction::StopIterationAndWatermark);
    EXPECT_EQ(
        run.stream->responseBody("y", !with_trailers),
        with_trailers ? BodyAction::StopIterationAndWatermark : BodyAction::StopIterationAndBuffer);
    if (with_trailers) {
      EXPECT_EQ(run.stream->responseTrailers({{"checksum", "9"}}), TrailersAction::StopIteration);
    }
    client->belowLowWatermark();
    settle(*run.stream);
    client->runScheduled();
    ASSERT_TRUE(client->reply.has_value());
    EXPECT_EQ(client->reply->body, std::string(1999, 'x') + "y");
    EXPECT_TRUE(client->reply->complete);
    EXPECT_EQ(client->reply->trailers.size(), with_trailers ? 1u : 0u);
    run.end();
  }
}

// --- The client leaves

TEST_F(DetachedTest, ClientLeavesBeforeItsRunStarts) {
  StreamPtr client = send();
  client.reset();
  const StreamPtr other = newStream();  // Whose worker is this thread, too.
  Run run = start(*other);
  respond(*run.stream, "201", "made");
  run.end();
  expectEnded("completed");
  EXPECT_EQ(run_config_.counter("detached.finished_alone"), 1u);
  EXPECT_EQ(config().counter("cut_short"), 1u);
  expectReplay("made");
}

TEST_F(DetachedTest, ClientLeavesBeforeTheResponse) {
  StreamPtr client = send();
  Run run = start(*client);
  client.reset();
  respond(*run.stream, "201", "made");
  run.end();
  expectEnded("completed");
  EXPECT_EQ(run_config_.counter("detached.finished_alone"), 1u);
  expectReplay("made");
}

TEST_F(DetachedTest, ClientLeavesWhileTheResponseIsHeld) {
  StreamPtr client = send();
  Run run = start(*client);
  responseHeaders(*run.stream, "200", false);
  run.stream->responseBody("ma", false);
  client.reset();
  run.stream->responseBody("de", true);
  settle(*run.stream);
  run.end();
  expectEnded("completed");
  expectReplay("made");
}

TEST_F(DetachedTest, ClientLeavesWhileItsResponseIsOnTheWay) {
  StreamPtr client = send();
  Run run = start(*client);
  respond(*run.stream, "200", "made");
  client.reset();
  run.end();
  expectEnded("completed");
  EXPECT_EQ(run_config_.counter("detached.finished_alone"), 0u) << "it was sent";
  expectReplay("made");
}

TEST_F(DetachedTest, SlowClientThatLeavesHoldsNothingUp) {
  StreamPtr client = send();
  Run run = start(*client);
  responseHeaders(*run.stream, "200", false, {{"content-length", "3000"}});
  client->aboveHighWatermark();
  EXPECT_EQ(run.stream->responseBody(std::string(2000, 'x'), false),
            BodyAction::StopIterationAndWatermark);
  client.reset();
  run.stream->runScheduled();
  EXPECT_EQ(run.stream->continued_response, 1);
  EXPECT_EQ(run.stream->bodies[3], "");
  EXPECT_EQ(run.stream->responseBody(std::string(1000, 'x'), true),
            BodyAction::StopIterationAndBuffer);
  settle(*run.stream);
  run.end();
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(run_config_.counter("detached.finished_alone"), 1u);
}

// Envoy's own time-out on the client's listener, say.
TEST_F(DetachedTest, ClientThatGetsAnotherAnswerLeavesItsRun) {
  const StreamPtr client = send();
  Run run = start(*client);
  client->localReply(504, "stream_idle_timeout");
  respond(*run.stream, "200", "made");
  client->runScheduled();
  EXPECT_FALSE(client->reply.has_value()) << "no second answer";
  run.end();
  expectEnded("completed");
  expectReplay("made");
}

// --- The run's stream ends

TEST_F(DetachedTest, StreamThatEndsBeforeItsResponseLeavesTheOutcomeUnknown) {
  const StreamPtr client = send();
  Run run = start(*client);
  run.end("downstream_remote_disconnect");
  expectAnswer(*client, 502, "idempotency_detached_lost");
  settle(*client);
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
  expectEnded("unknown");
  EXPECT_EQ(run_config_.counter("detached.lost"), 1u);
  EXPECT_EQ(send()->reply->details, "idempotency_outcome_unknown");
}

TEST_F(DetachedTest, StreamThatEndsWithinItsResponseLeavesTheOutcomeUnknown) {
  const StreamPtr client = send();
  Run run = start(*client);
  responseHeaders(*run.stream, "200", false);
  run.stream->responseBody("half", false);
  run.end("upstream_reset_after_response_started{protocol_error}");
  expectAnswer(*client, 502, "idempotency_detached_lost");
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
  expectEnded("unknown");
}

TEST_F(DetachedTest, StreamThatEndsWithinALongResponseBreaksTheClients) {
  const StreamPtr client = send();
  Run run = start(*client);
  responseHeaders(*run.stream, "200", false, {{"content-length", "3000"}});
  run.stream->responseBody(std::string(2000, 'x'), false);
  client->runScheduled();
  ASSERT_TRUE(client->reply.has_value());
  run.end("upstream_reset_after_response_started{protocol_error}");
  settleUntil(*client, [&] { return client->reset_details.has_value(); });
  EXPECT_FALSE(client->reply->complete) << "the client must not take it for the whole";
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
  expectEnded("unknown");
}

// The response was complete, but the client does not get it.
TEST_F(DetachedTest, StreamThatEndsWhileItsResponseIsStoredLosesItForTheClientOnly) {
  const StreamPtr client = send();
  Run run = start(*client);
  store().pause();
  responseHeaders(*run.stream, "200", false);
  run.stream->responseBody("made", true);
  run.end("downstream_remote_disconnect");
  store().resume();
  expectAnswer(*client, 502, "idempotency_detached_lost");
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  expectEnded("completed");
  expectReplay("made");
}

TEST_F(DetachedTest, RunThatExceedsItsTimeIsEnded) {
  usePolicy(R"("detached": {"timeout": "0.05s"})");
  const StreamPtr client = send();
  Run run = start(*client);
  settleUntil(*client, [&] { return run.connection->isClosed(); });
  EXPECT_FALSE(client->reply.has_value()) << "its stream is still there";
  run.end("downstream_remote_disconnect");
  expectAnswer(*client, 504, "idempotency_detached_timeout");
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
  expectEnded("unknown");
}

TEST_F(DetachedTest, AnswersOfEnvoyOnTheRunReachTheClient) {
  const std::vector<std::tuple<std::string, uint32_t, std::string>> answers = {
      {"response_timeout", 504, "unknown"}, {"no_healthy_upstream", 503, "released"}};
  for (const auto& [details, code, ending] : answers) {
    config();
    const uint64_t before = ended(ending);
    const StreamPtr client = send("{}", {{"x-tenant-id", details}});
    Run run = start(*client);
    run.stream->numbers[Attribute::UpstreamAttemptCount] = 1;
    run.stream->localReply(code, details);
    settle(*run.stream);
    client->runScheduled();
    ASSERT_TRUE(client->reply.has_value()) << details;
    EXPECT_EQ(client->reply->code, code);
    run.end();
    EXPECT_EQ(ended(ending), before + 1) << details;
  }
}

// --- An internal redirect

TEST_F(DetachedTest, RedirectedRunContinuesInAnotherStream) {
  const StreamPtr client = send();
  Run run = start(*client);
  const std::string attempt = header(run.stream->maps[RequestMap], "idempotency-attempt");
  run.stream->numbers[Attribute::UpstreamAttemptCount] = 1;
  run.stream->texts[Attribute::ResponseCodeDetails] = "internal_redirect";
  run.stream->complete();
  run.stream->destroy();
  run.stream = newRunStream();
  EXPECT_EQ(run.stream->requestHeaders(request({{"idempotency-attempt", attempt}}), true),
            HeadersAction::Continue);
  respond(*run.stream, "200", "made");
  client->runScheduled();
  ASSERT_TRUE(client->reply.has_value());
  EXPECT_EQ(client->reply->body, "made");
  run.end();
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(run_config_.counter("detached.runs"), 1u);
  EXPECT_EQ(run_config_.counter("redirected"), 1u);
  EXPECT_EQ(run_config_.gauge("detached.running"), 0u);
}

TEST_F(DetachedTest, RedirectThatNobodyTakesOverLeavesTheOutcomeUnknown) {
  const StreamPtr client = send();
  Run run = start(*client);
  const std::string attempt = header(run.stream->maps[RequestMap], "idempotency-attempt");
  run.stream->numbers[Attribute::UpstreamAttemptCount] = 1;
  run.end("internal_redirect");
  expectAnswer(*client, 502, "idempotency_detached_lost");
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
  EXPECT_FALSE(filter::WaitingRuns::instance().takeRedirected(std::stoull(attempt)).has_value())
      << "nobody waits for it";
  // Too late.
  const StreamPtr late = newRunStream();
  EXPECT_EQ(late->requestHeaders(request({{"idempotency-attempt", attempt}}), true),
            HeadersAction::StopIteration);
  EXPECT_EQ(late->reply->code, 404u);
}

// --- Runs that do not start

TEST_F(DetachedTest, WithoutAListenerNothingRunsAndTheKeyIsFree) {
  listener_.reset();
  const StreamPtr client = send();
  expectAnswer(*client, 503, "idempotency_detached_unavailable");
  EXPECT_THAT(client->reply->headers, Contains(Key("retry-after")));
  EXPECT_THAT(client->reply->headers, Not(Contains(Key("idempotency-key-expires"))));
  store().flush();
  EXPECT_FALSE(record().has_value());
  EXPECT_EQ(config().counter("detached.not_started"), 1u);
  EXPECT_TRUE(
      fake::process().logged(envoy::raw::LogLevel::Error, path() + ": No such file or directory"));
  listener_.emplace(path());
  const StreamPtr retry = send();
  start(*retry).end();
}

// It may lack the filter, and have forwarded the request.
TEST_F(DetachedTest, ListenerThatNeverTookOneOverLeavesTheOutcomeUnknown) {
  const StreamPtr client = send();
  accept(*client).reset();
  expectAnswer(*client, 502, "idempotency_detached_lost");
  store().flush();
  EXPECT_EQ(stateOf(), protocol::RecordState::Unknown);
  EXPECT_TRUE(fake::process().logged(envoy::raw::LogLevel::Error, "idempotency_run"));
}

TEST_F(DetachedTest, ListenerThatClosesTheConnectionHasNotRunIt) {
  prove();
  const StreamPtr client = send();
  std::unique_ptr<PrivateListener::Run> connection = accept(*client);
  const PrivateListener::Fields headers = connection->headers;
  connection.reset();
  expectAnswer(*client, 503, "idempotency_detached_unavailable");
  store().flush();
  EXPECT_FALSE(record().has_value());
  EXPECT_FALSE(
      filter::WaitingRuns::instance().take(header(headers, "idempotency-run")).has_value());
  // Its request comes too late, and finds nothing.
  const StreamPtr late = newRunStream();
  EXPECT_EQ(late->requestHeaders(headers, false), HeadersAction::StopIteration);
  EXPECT_EQ(late->reply->code, 404u);
}

TEST_F(DetachedTest, ListenerThatDoesNotAnswerInTimeHasNotRunIt) {
  useListener(R"(, "accept_timeout": "0.05s")");
  prove();
  const StreamPtr client = send();
  expectAnswer(*client, 503, "idempotency_detached_unavailable");
  store().flush();
  EXPECT_FALSE(record().has_value());
}

TEST_F(DetachedTest, MoreRunsThanAllowedAreRefused) {
  useListener(R"(, "max_runs": 1)");
  const StreamPtr client = send();
  Run run = start(*client);
  const StreamPtr other = send("{}", {{"x-tenant-id", "other"}});
  expectAnswer(*other, 503, "idempotency_overloaded");
  store().flush();
  EXPECT_FALSE(record({"other", "pay", KeyText}).has_value());
  respond(*run.stream, "200", "ok");
  run.end();
  const StreamPtr next = send("{}", {{"x-tenant-id", "other"}});
  start(*next).end();
}

// The process stops, or the last listener with these settings goes.
TEST_F(DetachedTest, RunThatWaitsWhileItsConfigEndsIsReleased) {
  prove();
  StreamPtr client = send();
  client.reset();
  EXPECT_EQ(stateOf(), protocol::RecordState::InProgress);
  config().end();
  EXPECT_FALSE(record().has_value());
}

TEST_F(DetachedTest, RunOutlivesTheConfigOfItsClient) {
  StreamPtr client = send();
  Run run = start(*client);
  client.reset();
  config().end();
  responseHeaders(*run.stream, "200", false);
  run.stream->responseBody("made", true);
  run.end();
  EXPECT_EQ(stateOf(), protocol::RecordState::Completed);
  EXPECT_EQ(run_config_.gauge("detached.running"), 0u);
}

// --- No memory

// Whichever allocation fails when a run starts, its claim is settled and its client is told.
TEST_F(DetachedTest, OneFailureOfMemoryLosesNoRun) {
  prove();
  // Another request of the tenant, so that its entry is there already.
  const StreamPtr other = newStream();
  other->requestHeaders(request({{"idempotency-key", "\"other-0123456789\""}}), false);
  size_t good = 0;
  for (size_t failed = 1; failed > 0; ++good) {
    SCOPED_TRACE(good);
    const std::string key = fmt::format("no-memory-{:08}", good);
    const StreamPtr client =
        send("{}", {{"idempotency-key", fmt::format("\"{}\"", key)}, {":scheme", "https"}});
    Run run{accept(*client), newRunStream()};
    fake::FieldList headers = run.connection->headers;
    {
      const FailingAllocations no_memory(good, 1);
      try {
        run.stream->requestHeaders(std::move(headers), false);
      } catch (const std::bad_alloc&) {
        // The fake Envoy itself had none.
      }
      failed = FailingAllocations::thrown();
    }
    run.end("downstream_remote_disconnect");
    settleUntil(*client, [&] { return client->reply.has_value(); });
    store().flush();
    const auto found = record({"acme", "pay", key});
    EXPECT_TRUE(!found.has_value() || found->state == protocol::RecordState::Unknown);
  }
  EXPECT_GT(good, 5u) << "the failures came nowhere";
}

// --- Strays

TEST_F(DetachedTest, StraysRunNothing) {
  const StreamPtr client = send();
  Run run = start(*client);
  PrivateListener::Fields used = run.connection->headers;
  const std::vector<fake::FieldList> strays = {
      {},
      {{"idempotency-run", ""}},
      {{"idempotency-run", "0123456789abcdef0123456789abcdef"}},
      {{"idempotency-run", header(used, "idempotency-run")}},
      {{"idempotency-attempt", header(used, "idempotency-attempt")}},
      {{"idempotency-attempt", "0"}},
  };
  for (const fake::FieldList& fields : strays) {
    const StreamPtr stray = newRunStream();
    EXPECT_EQ(stray->requestHeaders(request(fields), true), HeadersAction::StopIteration);
    ASSERT_TRUE(stray->reply.has_value());
    EXPECT_EQ(stray->reply->code, 404u);
    EXPECT_EQ(stray->continued_request, 0);
  }
  EXPECT_EQ(run_config_.counter("detached.strays"), strays.size());
  EXPECT_EQ(run_config_.gauge("detached.running"), 1u);
  respond(*run.stream, "200", "made");
  client->runScheduled();
  EXPECT_EQ(client->reply->body, "made") << "the run does not mind";
  run.end();
  expectEnded("completed");
}

// --- traces

constexpr std::string_view TraceId = "0af7651916cd43dd8448eb211c80319c";
constexpr std::string_view SpanId = "b7ad6b7169203331";
const std::pair<std::string, std::string> SampledId = {"x-request-id",
                                                       "c3a1f6de-7f3b-9d2c-8a53-0f3c1b2a4d5e"};

class TracedRunTest : public DetachedTest {
protected:
  StreamPtr sendTraced(bool traced) {
    StreamPtr client = newStream();
    client->traced = traced;
    client->trace_id = TraceId;
    client->span_id = SpanId;
    client->requestHeaders(request({SampledId, {"traceparent", "of the client"}}), false);
    client->requestBody("{}", true);
    settle(*client);
    return client;
  }
};

TEST_F(TracedRunTest, RunIsAChildOfTheClientsSpan) {
  const StreamPtr client = sendTraced(true);
  Run run = start(*client);
  const auto context = Pair("traceparent", fmt::format("00-{}-{}-01", TraceId, SpanId));
  EXPECT_THAT(run.connection->headers, Contains(context));
  EXPECT_THAT(run.connection->headers, Contains(Key("traceparent")).Times(1));
  run.end();
}

TEST_F(TracedRunTest, WithoutASpanTheClientsContextPasses) {
  const StreamPtr client = sendTraced(false);
  Run run = start(*client);
  EXPECT_THAT(run.connection->headers, Contains(Pair("traceparent", "of the client")));
  run.end();
}

}  // namespace
}  // namespace idempotency::test
