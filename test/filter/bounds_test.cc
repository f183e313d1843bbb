// What the filter holds is bounded, and a bound that is reached is no failure of the store.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "test/filter/filter_rig.h"

namespace idempotency::test {
namespace {

using envoy::raw::Attribute;
using envoy::raw::BodyAction;
using envoy::raw::HeadersAction;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

constexpr size_t MiB = 1 << 20;
const auto ResponseMap = static_cast<size_t>(envoy::raw::HeaderMap::Response);

class BoundsTest : public FilterRig {
protected:
  static fake::FieldList of(const std::string& tenant, const std::string& key = KeyText) {
    return {{"x-tenant-id", tenant}, {"idempotency-key", "\"" + key + "\""}};
  }
  // A request whose body does not end.
  std::unique_ptr<fake::Stream> slow(const std::string& tenant, size_t bytes = 0) {
    auto stream = newStream();
    stream->requestHeaders(request(of(tenant, "slow-key-" + std::to_string(++keys_) + "-00000")),
                           false);
    if (bytes > 0 && !stream->reply.has_value()) {
      stream->requestBody(std::string(bytes, 'x'), false);
    }
    return stream;
  }
  static void expectOverloaded(const fake::Stream& stream) {
    ASSERT_TRUE(stream.reply.has_value());
    EXPECT_EQ(stream.reply->code, 503u);
    EXPECT_EQ(stream.reply->details, "idempotency_overloaded");
    EXPECT_THAT(stream.reply->headers, Contains(Pair("retry-after", "1")));
    EXPECT_EQ(stream.continued_request, 0);
  }
  static void expectOverQuota(const fake::Stream& stream) {
    ASSERT_TRUE(stream.reply.has_value());
    EXPECT_EQ(stream.reply->code, 429u);
    EXPECT_EQ(stream.reply->details, "idempotency_quota_exceeded");
    EXPECT_THAT(stream.reply->headers, Contains(Pair("retry-after", "1")));
    EXPECT_EQ(stream.continued_request, 0);
  }
  void expectStoreWasWell() {
    EXPECT_EQ(config().counter("store.error"), 0u);
    EXPECT_EQ(config().counter("store.fail_open"), 0u);
    EXPECT_EQ(config().counter("store_unavailable"), 0u);
  }

  int keys_ = 0;
};

// --- Requests

TEST_F(BoundsTest, RequestsCountFromTheirHeadersOn) {
  useFilter(R"("limits": {"in_flight": 2})");
  auto first = slow("a");
  const auto second = slow("b");
  EXPECT_EQ(config().gauge("in_flight"), 2u);
  const auto third = newStream();
  EXPECT_EQ(third->requestHeaders(request(), false), HeadersAction::StopIteration);
  expectOverloaded(*third);
  EXPECT_EQ(config().counter("in_flight_full"), 1u);
  EXPECT_EQ(config().counter("overloaded"), 1u);
  expectStoreWasWell();
  first->complete();
  EXPECT_EQ(send()->continued_request, 1);
}

TEST_F(BoundsTest, FullPoolLetsNobodyRunUnprotected) {
  useFilter(R"("limits": {"in_flight": 1})");
  usePolicy(R"("on_store_failure": "FAIL_OPEN")");
  const auto first = send();
  const auto second = send("{}", of("other"));
  expectOverloaded(*second);
  expectOverloaded(*send("", of("third")));
  expectStoreWasWell();
}

TEST_F(BoundsTest, FullQueueOfTheStoreLetsNobodyRunUnprotected) {
  usePolicy(R"("on_store_failure": "FAIL_OPEN")");
  config();
  store().setFailure(FakeStore::QueueFull);
  expectOverloaded(*send());
  EXPECT_EQ(config().counter("queue_full"), 1u);
  expectStoreWasWell();
  store().setFailure("down");
  EXPECT_EQ(send()->continued_request, 1) << "a failure of the store does";
  EXPECT_EQ(config().counter("store.fail_open"), 1u);
}

TEST_F(BoundsTest, CachedReplayWithoutABodyTakesNobodysPlace) {
  useFilter(R"("limits": {"in_flight": 1})");
  const auto first = send("", of("a"));
  respond(*first, "200", "done");
  first->complete();
  const auto holds = slow("b");
  const auto retry = send("", of("a"));
  ASSERT_TRUE(retry->reply.has_value());
  EXPECT_EQ(retry->reply->body, "done");
  EXPECT_EQ(config().gauge("in_flight"), 1u);
  expectOverloaded(*send("{}", of("a")));
}

// However a request ends, the only place is free again, once.
TEST_F(BoundsTest, EveryEndingGivesThePlaceBackOnce) {
  useFilter(R"("limits": {"in_flight": 1})");
  const auto expectFree = [&](const std::string& after) {
    EXPECT_EQ(config().gauge("in_flight"), 0u) << after;
    auto next = slow("free");
    EXPECT_FALSE(next->reply.has_value()) << "no place after " << after;
    auto too_many = slow("free");
    EXPECT_TRUE(too_many->reply.has_value()) << "a place too many after " << after;
    too_many->complete();
    next->complete();
  };
  slow("a")->complete();
  expectFree("a client that left before its body's end");
  {
    const auto stream = slow("a");
    stream->localReply(408, "request_timeout");
    stream->complete();
  }
  expectFree("a local reply while the body was gathered");
  {
    const auto stream = send("{}", of("b"));
    respond(*stream, "200", "ok");
    stream->complete();
  }
  expectFree("a whole answer");
  send("{}", of("b"))->complete();
  expectFree("a replay");
  {
    const auto stream = send("{\"other\":1}", of("b"));
    ASSERT_EQ(stream->reply->code, 422u);
    stream->complete();
  }
  expectFree("a refusal");
  send("{}", of("c"))->complete();
  store().flush();
  expectFree("a client that left while its request ran");
  {
    const auto stream = send("{}", of("d"));
    stream->localReply(504, "upstream_response_timeout");
    settle(*stream);
    stream->complete();
  }
  expectFree("a time-out");
  { const auto destroyed = send("{}", of("e")); }
  store().flush();
  expectFree("a stream that was destroyed");
}

// --- Bytes

TEST_F(BoundsTest, BodiesAreCountedAsTheyComeAndGivenBack) {
  useFilter(R"("limits": {"held_bytes": 4194304, "tenant_in_flight": 100})");
  auto a = slow("a", MiB);
  auto b = slow("b", MiB);
  auto late = slow("late", 1);
  auto c = slow("c", MiB - 1);
  EXPECT_FALSE(c->reply.has_value());
  EXPECT_EQ(late->requestBody("2", false), BodyAction::StopIterationNoBuffer) << "it grows";
  expectOverloaded(*late);
  expectOverloaded(*slow("new", MiB));
  EXPECT_EQ(config().counter("held_bytes.full"), 2u);
  expectStoreWasWell();
  settleUntil(*a, [&] { return config().gauge("held_bytes") >= 3 * MiB - 1; });
  for (auto* stream : {&a, &b, &c, &late}) {
    (*stream)->complete();
  }
  EXPECT_FALSE(slow("new", MiB)->reply.has_value());
  settleUntil(*a, [&] { return config().gauge("held_bytes") == 0; });
}

TEST_F(BoundsTest, BodyThatWentOnIsNotHeld) {
  useFilter(R"("limits": {"held_bytes": 4194304, "tenant_in_flight": 100})");
  std::vector<std::unique_ptr<fake::Stream>> running;
  for (int i = 0; i < 8; ++i) {
    running.push_back(send(std::string(MiB, 'x'), of("tenant-" + std::to_string(i))));
    EXPECT_EQ(running.back()->continued_request, 1);
  }
}

TEST_F(BoundsTest, BodyOfAWaitingRequestIsHeld) {
  useFilter(R"("limits": {"held_bytes": 4194304, "tenant_in_flight": 100})");
  usePolicy(R"("in_flight": {"action": "WAIT", "wait": "60s"})");
  const std::string body(MiB, 'x');
  const auto first = send(body, of("a"));
  const auto waits = send(body, of("a"));
  EXPECT_FALSE(waits->reply.has_value());
  expectOverQuota(*slow("a", MiB));
  EXPECT_EQ(config().counter("tenant.held_bytes_full"), 1u);
  EXPECT_FALSE(slow("b", MiB)->reply.has_value());
  respond(*first, "200", "ok");
  settleUntil(*waits, [&] { return waits->reply.has_value(); });
  waits->complete();
  EXPECT_FALSE(slow("a", MiB)->reply.has_value());
}

TEST_F(BoundsTest, ResponseWithoutRoomReachesTheClientAndIsNotKept) {
  useFilter(R"("limits": {"held_bytes": 4194304, "tenant_in_flight": 100})");
  const auto large = send("{}", of("large"));
  const auto small = send("{}", of("small"));
  const auto fits = send("{}", of("fits"));
  const std::vector<std::unique_ptr<fake::Stream>> bodies = [&] {
    std::vector<std::unique_ptr<fake::Stream>> streams;
    for (const char* tenant : {"a", "b", "c"}) {
      streams.push_back(slow(tenant, MiB));
    }
    return streams;
  }();
  store().pause();
  responseHeaders(*fits, "200", false);
  EXPECT_EQ(fits->responseBody(std::string(MiB, 'y'), true), BodyAction::StopIterationAndBuffer);

  responseHeaders(*large, "201", false);
  EXPECT_EQ(large->responseBody(std::string(4097, 'y'), false), BodyAction::Continue)
      << "it streams on";
  EXPECT_EQ(config().counter("held_bytes.unkept"), 1u);
  EXPECT_EQ(large->responseBody("end", true), BodyAction::StopIterationAndBuffer);

  responseHeaders(*small, "200", false);
  EXPECT_EQ(small->responseBody(std::string(4096, 'y'), true), BodyAction::StopIterationAndBuffer);
  store().resume();
  for (const auto& stream : {large.get(), small.get(), fits.get()}) {
    settle(*stream);
    EXPECT_EQ(stream->continued_response, 1);
  }
  const auto tombstone = record({"large", "pay", KeyText});
  EXPECT_EQ(tombstone->state, protocol::RecordState::Completed);
  EXPECT_EQ(tombstone->tombstone, protocol::Tombstone::TooLarge);
  EXPECT_EQ(tombstone->status, 201);
  EXPECT_EQ(record({"small", "pay", KeyText})->tombstone, protocol::Tombstone::None);
  EXPECT_EQ(record({"fits", "pay", KeyText})->tombstone, protocol::Tombstone::None);
  bodies.front()->complete();
  const auto retry = send("{}", of("large"));
  EXPECT_EQ(retry->reply->details, "idempotency_response_unavailable");
  EXPECT_THAT(retry->reply->body, HasSubstr("\"original_status\":201"));
}

TEST_F(BoundsTest, CompletionThatWaitsForTheStoreIsHeld) {
  useFilter(R"("limits": {"held_bytes": 4194304, "tenant_in_flight": 100})");
  const auto stream = send("{}", of("a"));
  store().pause();
  responseHeaders(*stream, "200", false);
  stream->responseBody(std::string(MiB, 'y'), true);
  expectOverloaded(*slow("b", MiB));
  store().resume();
  settle(*stream);
  stream->complete();
  settleUntil(*stream, [&] { return !slow("b", MiB)->reply.has_value(); });
}

// --- Shares of tenants

TEST_F(BoundsTest, OneTenantCannotTakeAllPlaces) {
  useFilter(R"("limits": {"in_flight": 4})");
  const auto one = slow("greedy");
  auto two = slow("greedy");
  expectOverQuota(*slow("greedy"));
  EXPECT_EQ(config().counter("tenant.in_flight_full"), 1u);
  EXPECT_EQ(config().counter("quota_exceeded"), 1u);
  EXPECT_EQ(send("{}", of("other"))->continued_request, 1);
  two->complete();
  EXPECT_FALSE(slow("greedy")->reply.has_value());
  expectStoreWasWell();
}

TEST_F(BoundsTest, WaitersOfOneTenantTakeNoRoomOfAnother) {
  useFilter(R"("limits": {"in_flight": 12, "tenant_waiters": 2})");
  usePolicy(R"("in_flight": {"action": "WAIT", "wait": "60s"})");
  const auto runs = send("{}", of("greedy"));
  std::vector<std::unique_ptr<fake::Stream>> waiters;
  for (int i = 0; i < 2; ++i) {
    waiters.push_back(send("{}", of("greedy")));
    EXPECT_FALSE(waiters.back()->reply.has_value());
  }
  expectOverQuota(*send("{}", of("greedy")));
  EXPECT_EQ(config().counter("tenant.waiters_full"), 1u);
  const auto other = send("{}", of("other"));
  EXPECT_EQ(other->continued_request, 1);
  const auto other_waits = send("{}", of("other"));
  EXPECT_FALSE(other_waits->reply.has_value());
  respond(*runs, "200", "ok");
  for (const auto& waiter : waiters) {
    settleUntil(*waiter, [&] { return waiter->reply.has_value(); });
    EXPECT_EQ(waiter->reply->body, "ok");
    waiter->complete();
  }
  const auto again = send("{}", of("greedy", "another-key-0000"));
  EXPECT_FALSE(send("{}", of("greedy", "another-key-0000"))->reply.has_value());
}

TEST_F(BoundsTest, WaitersAreWokenWhenTheirHolderEndsInAnyWay) {
  usePolicy(R"("in_flight": {"action": "WAIT", "wait": "60s"})");
  // Somebody else took over its claim, so that it is fenced, and settles it elsewhere.
  const auto fenced = send("{}", of("a"));
  const auto first = send("{}", of("a"));
  store::ClaimRequest elsewhere;
  elsewhere.identity = {"a", "pay", KeyText};
  elsewhere.fingerprint = record(elsewhere.identity)->fingerprint;
  elsewhere.attempt = 7;
  database().settle({elsewhere.identity, record(elsewhere.identity)->attempt},
                    protocol::Released{});
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(database().claim(elsewhere)));
  respond(*fenced, "200", "ok");
  EXPECT_EQ(config().counter("fenced"), 1u);
  database().settle({elsewhere.identity, 7}, protocol::Unknown{"swept", {}});
  settleUntil(*first, [&] { return first->reply.has_value(); });
  // It leaves.
  auto leaves = send("{}", of("b"));
  const auto second = send("{}", of("b"));
  leaves->complete();
  settleUntil(*second, [&] { return second->reply.has_value(); });
  EXPECT_EQ(second->reply->details, "idempotency_outcome_unknown");
  // It never ran.
  const auto refused = send("{}", of("c"));
  const auto third = send("{}", of("c"));
  refused->texts[Attribute::ResponseCodeDetails] = "no_healthy_upstream";
  refused->localReply(503, "no_healthy_upstream");
  settle(*refused);
  settleUntil(*third, [&] { return third->continued_request == 1; });
}

// --- A client that waits for a 100

TEST_F(BoundsTest, BodyThatWaitsForAContinueIsRefusedAtOnce) {
  const auto stream = newStream();
  EXPECT_EQ(stream->requestHeaders(request({{"expect", "100-Continue"}}), false),
            HeadersAction::StopIteration);
  ASSERT_TRUE(stream->reply.has_value());
  EXPECT_EQ(stream->reply->code, 417u);
  EXPECT_EQ(stream->reply->details, "idempotency_expectation_failed");
  EXPECT_EQ(config().counter("expectation_failed"), 1u);
  EXPECT_EQ(config().gauge("in_flight"), 0u);
  EXPECT_EQ(send("", {{"expect", "100-continue"}})->continued_request, 1) << "no body to wait for";
  EXPECT_EQ(send("{}", {{"expect", "more"}, {"x-tenant-id", "b"}})->continued_request, 1);
}

// --- Scripts of other origins

TEST_F(BoundsTest, HeadersAreExposedToScriptsOfOtherOrigins) {
  const fake::FieldList from = {{"origin", "https://shop.example"}};
  const auto first = send("{}", from);
  respond(*first, "200", "ok", {{"access-control-expose-headers", "x-mine"}});
  EXPECT_THAT(header(first->maps[ResponseMap], "access-control-expose-headers"),
              HasSubstr("x-mine, idempotent-replayed"));
  const auto replay = send("{}", from);
  EXPECT_THAT(header(replay->reply->headers, "access-control-expose-headers"),
              HasSubstr("idempotent-replayed"));
  const auto refused = send("{\"other\":1}", from);
  EXPECT_EQ(refused->reply->code, 422u);
  EXPECT_THAT(header(refused->reply->headers, "access-control-expose-headers"),
              HasSubstr("idempotency-key-expires"));
  const auto plain = send("{\"other\":1}");
  EXPECT_THAT(plain->reply->headers, Not(Contains(Key("access-control-expose-headers"))));
}

// --- A route whose policy conflicts with the filter's

TEST_F(BoundsTest, ContradictionIsLoggedNowAndThenAndNamesItsRoute) {
  useFilter(R"("policy": {"max_key_length": 20})");
  usePolicy(R"("min_key_length": 30)");
  for (int i = 0; i < 100; ++i) {
    const auto stream = newStream();
    stream->texts[Attribute::RouteName] = "payments-route";
    stream->requestHeaders(request(), true);
    EXPECT_EQ(stream->reply->details, "idempotency_config_invalid");
  }
  EXPECT_EQ(config().counter("config_invalid"), 100u);
  const std::lock_guard lock(fake::process().mutex);
  size_t lines = 0;
  for (const auto& [level, line] : fake::process().log) {
    if (line.find("conflicts with") != std::string::npos) {
      ++lines;
      EXPECT_THAT(line, HasSubstr("\"payments-route\""));
    }
  }
  EXPECT_EQ(lines, 1u);
}

}  // namespace
}  // namespace idempotency::test
