// What the operator filter counts and logs, in a fake Envoy, on a store in memory. docs/operator.md
// and docs/stats.md promise it.
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "source/operator_api/record_id.h"
#include "source/protocol/key_hash.h"
#include "source/protocol/tenant_hash.h"
#include "test/support/fake_envoy.h"
#include "test/support/memory_operator_store.h"

namespace idempotency::filter {
namespace {

using envoy::raw::LogLevel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char Json[] = R"({
  "store": {"sqlite": {"path": "/tmp/never-opened.db"}},
  "actor": {"sources": [{"header": "x-operator"}]},
  "webhook": {"path": "/hook", "unsigned": true}
})";
constexpr char Change[] = R"({"attempt": "5", "reason": "the ledger shows secret-key"})";

class OperatorLogTest : public ::testing::Test {
protected:
  OperatorLogTest() {
    fake::resetProcess();
    test::resetOperatorMemory();
    add(identity_);
    config_ = std::make_unique<fake::Config>("idempotency_operator", Json);
    EXPECT_TRUE(config_->loaded());
  }

  static void add(const protocol::Identity& identity) {
    store::Record record;
    record.state = protocol::RecordState::Unknown;
    record.attempt = 5;
    test::operatorMemory().records[identity] = record;
  }

  static fake::FieldList get(const std::string& path) {
    return {{":method", "GET"}, {":path", path}};
  }
  static fake::FieldList post(const std::string& path, const std::string& actor = "alice") {
    return {{":method", "POST"},
            {":path", path},
            {"content-type", "application/json"},
            {"x-operator", actor}};
  }
  static std::string changeOf(const protocol::Identity& identity, const std::string& change) {
    return "/idempotency/v1/records/" + operator_api::recordId(identity) + "/" + change;
  }

  static void waitUntil(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    ASSERT_TRUE(condition());
  }

  // The status of the answer.
  uint32_t ask(const fake::FieldList& headers, const std::string& body = "") {
    fake::Stream stream(*config_);
    stream.requestHeaders(headers, body.empty());
    if (!body.empty() && !stream.reply.has_value()) {
      stream.requestBody(body, true);
    }
    waitUntil([&] { return stream.runScheduled(), stream.reply.has_value(); });
    config_->runScheduled();
    return stream.reply.has_value() ? stream.reply->code : 0;
  }

  uint64_t requests(const std::string& endpoint, const std::string& status) const {
    return config_->counter("operator.requests.endpoint." + endpoint + ".status." + status);
  }
  uint64_t changes(const std::string& action, const std::string& outcome) const {
    return config_->counter("operator.changes.action." + action + ".outcome." + outcome);
  }
  uint64_t events(const std::string& result) const {
    return config_->counter("operator.webhook_events.result." + result);
  }

  // From this level on.
  static std::vector<std::string> lines(LogLevel level = LogLevel::Info) {
    const std::lock_guard lock(fake::process().mutex);
    std::vector<std::string> found;
    for (const auto& [one, line] : fake::process().log) {
      if (one >= level) {
        found.push_back(line);
      }
    }
    return found;
  }

  const protocol::Identity identity_{"acme", "pay", "secret-key"};
  std::unique_ptr<fake::Config> config_;
};

TEST_F(OperatorLogTest, EachAnswerIsCountedByEndpointAndStatus) {
  ask(get("/idempotency/"));
  ask(get("/idempotency/page.js"));
  ask(get("/nothing"));
  ask(get("/idempotency/v1/records/AAAA"));
  for (const std::string path : {"healthz", "summary", "records", "audit"}) {
    EXPECT_EQ(ask(get("/idempotency/v1/" + path)), 200);
    EXPECT_EQ(requests(path, "2xx"), 1) << path;
  }
  ask(get("/idempotency/v1/records?limit=0"));
  ask(get("/idempotency/v1/records/" + operator_api::recordId(identity_)));
  ask(get(changeOf(identity_, "bust")));
  ask(get("/idempotency"));
  EXPECT_EQ(requests("page", "2xx"), 2);
  EXPECT_EQ(requests("page", "3xx"), 1);
  EXPECT_EQ(requests("other", "4xx"), 2);
  EXPECT_EQ(requests("records", "4xx"), 1);
  EXPECT_EQ(requests("record", "2xx"), 1);
  EXPECT_EQ(requests("change", "4xx"), 1);
  test::operatorMemory().before_call = [] { return absl::UnavailableError("no connection"); };
  ask(get("/idempotency/v1/summary"));
  EXPECT_EQ(requests("summary", "5xx"), 1);
}

TEST_F(OperatorLogTest, AChangeIsCountedAndLoggedWithTheHashOfItsKey) {
  EXPECT_EQ(ask(post(changeOf(identity_, "release")), Change), 200);
  EXPECT_EQ(changes("release", "done"), 1);
  EXPECT_EQ(requests("change", "2xx"), 1);
  EXPECT_THAT(lines(), ElementsAre("idempotency: operator: release: actor \"alice\", tenant "
                                   "\"acme\", operation \"pay\", key hash " +
                                   protocol::keyHash(identity_) + ", attempt 5: done"));
}

TEST_F(OperatorLogTest, NeitherTheKeyNorTheReasonIsLogged) {
  ask(post(changeOf(identity_, "ask_again")), Change);
  ask(post(changeOf(identity_, "release")), Change);
  ask(post("/hook"), R"({"attempt": "5", "reason": "secret-key", "outcome": "not_run"})");
  ask(post("/idempotency/v1/tenants/purge"), R"({"tenant": "acme", "reason": "secret-key"})");
  EXPECT_THAT(lines(LogLevel::Trace), Not(IsEmpty()));
  for (const std::string& line : lines(LogLevel::Trace)) {
    EXPECT_THAT(line, Not(HasSubstr("secret-key")));
  }
}

TEST_F(OperatorLogTest, WhatIsNotMadeIsCountedByItsReasonAndNotLogged) {
  ask(post(changeOf(identity_, "release")), R"({"attempt": "4", "reason": "r"})");
  ask(post(changeOf(identity_, "bust")), Change);
  ask(post(changeOf(identity_, "release")), R"({"attempt": "5", "reason": "r", "dry_run": true})");
  ask(post(changeOf({"acme", "pay", "absent"}, "release")), Change);
  ask(post(changeOf(identity_, "release")), "{}");
  EXPECT_EQ(changes("release", "stale"), 1);
  EXPECT_EQ(changes("bust", "refused"), 1);
  EXPECT_EQ(changes("release", "dry_run"), 1);
  EXPECT_EQ(changes("release", "absent"), 1);
  EXPECT_EQ(changes("release", "done"), 0);
  EXPECT_EQ(requests("change", "4xx"), 4);
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(OperatorLogTest, AFailureOfTheStoreSaysThatTheChangeMayHaveBeenMade) {
  test::operatorMemory().before_call = [] { return absl::UnavailableError("connection lost"); };
  EXPECT_EQ(ask(post(changeOf(identity_, "release")), Change), 503);
  EXPECT_EQ(changes("release", "failed"), 1);
  EXPECT_TRUE(fake::process().logged(LogLevel::Warn, "the audit shows whether it was made"));
  EXPECT_TRUE(fake::process().logged(LogLevel::Warn, "connection lost"));
}

// A client that leaves while its change is made does not undo it.
TEST_F(OperatorLogTest, AChangeIsCountedAndLoggedAlsoIfItsClientHasLeft) {
  std::promise<void> begun;
  std::promise<void> let_go;
  test::operatorMemory().before_call = [&] {
    begun.set_value();
    let_go.get_future().wait();
    return absl::OkStatus();
  };
  {
    fake::Stream leaving(*config_);
    leaving.requestHeaders(post(changeOf(identity_, "release")), false);
    leaving.requestBody(Change, true);
    begun.get_future().wait();
  }
  EXPECT_EQ(requests("change", "left"), 1);
  let_go.set_value();
  waitUntil([&] { return config_->runScheduled(), changes("release", "done") == 1; });
  EXPECT_THAT(lines(), SizeIs(1));
}

TEST_F(OperatorLogTest, ARequestThatAnEarlierFilterAnswersIsNotCounted) {
  fake::Stream(*config_).complete();
  EXPECT_THAT(fake::process().values, IsEmpty());
}

TEST_F(OperatorLogTest, APurgeIsLoggedWithoutTheNameOfTheTenant) {
  const std::string path = "/idempotency/v1/tenants/purge";
  EXPECT_EQ(ask(post(path), R"({"tenant": "acme", "reason": "r", "dry_run": true})"), 200);
  EXPECT_THAT(lines(), IsEmpty());
  EXPECT_EQ(ask(post(path), R"({"tenant": "acme", "reason": "r"})"), 200);
  EXPECT_EQ(changes("purge", "dry_run"), 1);
  EXPECT_EQ(changes("purge", "done"), 1);
  EXPECT_EQ(requests("purge", "2xx"), 2);
  EXPECT_THAT(
      lines(),
      ElementsAre("idempotency: operator: purge: actor \"alice\", tenant sha256:822b33ad87c148a0: "
                  "done: 1 records deleted, 0 of them unknown, 0 left running, 0 audit entries "
                  "renamed"));
  EXPECT_EQ(protocol::tenantHash("acme"), "sha256:822b33ad87c148a0");
}

TEST_F(OperatorLogTest, AnEventIsCountedByWhatItGot) {
  const std::string event = R"({"attempt": "5", "outcome": "not_run"})";
  EXPECT_EQ(ask(post("/hook", "payments"), event), 200);
  EXPECT_EQ(ask(post("/hook", "payments"), event), 200);
  EXPECT_EQ(ask(post("/hook"), R"({"attempt": "6", "outcome": "not_run"})"), 404);
  EXPECT_EQ(ask(get("/hook")), 405);
  EXPECT_EQ(events("settled"), 2);
  EXPECT_EQ(events("record_not_found"), 1);
  EXPECT_EQ(events("method_not_allowed"), 0);  // Not an event.
  EXPECT_EQ(requests("webhook", "4xx"), 2);
  EXPECT_EQ(changes("resolve_not_run", "done"), 1);
  EXPECT_EQ(changes("resolve_not_run", "refused"), 1);
  EXPECT_TRUE(
      fake::process().logged(LogLevel::Info, "resolve_not_run: actor \"webhook:payments\""));
}

TEST_F(OperatorLogTest, RefusedEventsGetOneLineForEachReason) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ask(post("/hook"), "{"), 400);
    EXPECT_EQ(ask(post("/hook"), R"({"attempt": "6", "outcome": "not_run"})"), 404);
  }
  EXPECT_EQ(events("invalid_request"), 5);
  EXPECT_THAT(lines(), ElementsAre("idempotency: webhook: event refused: invalid_request",
                                   "idempotency: webhook: event refused: record_not_found"));
}

// Names come from clients of the protected routes: none may end a line, or look like the rest of
// it.
TEST_F(OperatorLogTest, NoNameForgesALine) {
  const std::string forged =
      "acme\"\n[info] idempotency: operator: release: actor \"root\"\r\x1b[2J\\\xe2\x80\xae\x7f";
  const protocol::Identity hostile{forged, forged, "secret-key"};
  add(hostile);
  EXPECT_EQ(
      ask(post(changeOf(hostile, "release"), forged), R"({"attempt": "5", "reason": "a reason"})"),
      200);
  const std::string quoted =
      "\"acme\\x22\\x0a[info] idempotency: operator: release: actor "
      "\\x22root\\x22\\x0d\\x1b[2J\\x5c\\xe2\\x80\\xae\\x7f\"";
  EXPECT_THAT(lines(), ElementsAre("idempotency: operator: release: actor " + quoted + ", tenant " +
                                   quoted + ", operation " + quoted + ", key hash " +
                                   protocol::keyHash(hostile) + ", attempt 5: done"));
}

TEST_F(OperatorLogTest, ALongActorDoesNotFillTheLog) {
  ask(post(changeOf(identity_, "release"), std::string(10'000, 'a')), Change);
  const std::vector<std::string> found = lines();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_LT(found.front().size(), 1000);
  EXPECT_THAT(found.front(), HasSubstr("aaa\"..., tenant \"acme\""));
}

// The store is shared by configs: a reload must not lose what is not counted yet.
TEST_F(OperatorLogTest, WhatAConfigHasNotCountedAnotherOneCounts) {
  auto next = std::make_unique<fake::Config>("idempotency_operator", Json);
  {
    fake::Stream stream(*config_);
    stream.requestHeaders(post(changeOf(identity_, "release")), false);
    stream.requestBody(Change, true);
    waitUntil([&] { return stream.runScheduled(), stream.reply.has_value(); });
  }
  next.reset();  // The newest, which has the task.
  config_->runScheduled();
  EXPECT_EQ(changes("release", "done"), 1);
}

}  // namespace
}  // namespace idempotency::filter
