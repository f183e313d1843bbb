// The client of the operators' API: against the API's own classes over HTTP, and against servers
// that answer what no API would.
#include "source/operator_client/api_operator_store.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <absl/status/status.h>

#include "fmt/format.h"
#include "source/message/stored_response.h"
#include "source/operator_api/api.h"
#include "source/operator_api/record_id.h"
#include "source/protocol/key_hash.h"
#include "test/operator_client/http_server.h"
#include "test/support/memory_operator_store.h"

namespace idempotency::operator_client {
namespace {

using namespace std::chrono_literals;
using protocol::RecordState;
using test::HttpPeer;
using test::HttpRequest;
using test::HttpServer;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const protocol::Identity Payment = {"acme", "create-payment", "key-\xff-1"};

std::string messageOf(const absl::Status& status) {
  return std::string(status.message());
}

store::Record recordIn(RecordState state, protocol::Attempt attempt) {
  store::Record record;
  record.state = state;
  record.attempt = attempt;
  record.fingerprint = "\x02\xab";
  record.recovery_point = "started";
  record.claim_age = 5min;
  return record;
}

protocol::Completed receipt() {
  protocol::Completed completed;
  completed.status = 201;
  completed.response_schema = protocol::ResponseSchema;
  completed.response = message::serializeResponse(
      {.status = 201, .headers = {{"x-bank", "yes"}}, .body = "\xff\x01", .trailers = {}});
  return completed;
}

std::unique_ptr<ApiOperatorStore> openAt(const std::string& url,
                                         std::chrono::milliseconds timeout = 30s) {
  ApiAccess access;
  access.url = url;
  access.timeout = timeout;
  access.max_answer_bytes = 1 << 20;
  access.headers = {"x-operator: alice"};
  auto opened = ApiOperatorStore::open(access);
  EXPECT_TRUE(opened.ok()) << opened.status();
  return *std::move(opened);
}

// The API as the filter serves it; the actor is the header that the test's client sends.
class ApiTest : public testing::Test {
protected:
  ApiTest() { memory_.records[Payment] = recordIn(RecordState::Unknown, 11); }

  static protocol::OperatorSettings settings() {
    protocol::OperatorSettings settings;
    settings.show_responses = {"create-payment"};
    return settings;
  }
  ApiOperatorStore& serve(const protocol::OperatorSettings& settings = ApiTest::settings()) {
    api_ = std::make_unique<operator_api::Api>(settings, nullptr);
    server_ = std::make_unique<HttpServer>(
        [this](const HttpRequest& request, HttpPeer& peer) { answer(request, peer); });
    store_ = openAt(server_->url());
    return *store_;
  }
  std::vector<std::string> paths() const {
    std::vector<std::string> found;
    for (const HttpRequest& request : server_->requests()) {
      found.push_back(request.path);
    }
    return found;
  }
  store::OperatorChange change(store::OperatorAction action, bool dry_run = false) const {
    return {.seen = {.identity = Payment, .attempt = 11},
            .action = std::move(action),
            .actor = "mallory",
            .reason = "asked the bank",
            .dry_run = dry_run};
  }

  test::OperatorMemory memory_;
  std::unique_ptr<operator_api::Api> api_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<ApiOperatorStore> store_;

private:
  static std::string header(const HttpRequest& request, const std::string& name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? "" : found->second;
  }
  operator_api::ApiAnswer ask(const HttpRequest& request) {
    operator_api::RequestHead head;
    head.method = request.method;
    head.path = request.path;
    head.content_type = header(request, "content-type");
    head.content_length = header(request, "content-length");
    head.actor = header(request, "x-operator");
    auto decided = api_->onHead(head).next;
    if (auto* answer = std::get_if<operator_api::ApiAnswer>(&decided)) {
      return *answer;
    }
    auto outcome = api_->onRequest(std::get<operator_api::Target>(decided), head, request.body);
    if (auto* answer = std::get_if<operator_api::ApiAnswer>(&outcome)) {
      return *answer;
    }
    const auto store = test::makeMemoryOperatorStore(memory_);
    const auto answer = std::get<operator_api::StoreCall>(outcome)(*store);
    return answer.ok() ? *answer
                       : operator_api::problemAnswer(operator_api::ApiProblem::StoreUnavailable,
                                                     messageOf(answer.status()));
  }
  void answer(const HttpRequest& request, HttpPeer& peer) {
    const operator_api::ApiAnswer answer = ask(request);
    peer.answer(answer.status, answer.headers.front().second, answer.body);
  }
};

// --- Looking

TEST_F(ApiTest, APageLargerThanThoseOfTheApiIsPutTogether) {
  memory_.records.clear();
  for (int i = 0; i < 1200; ++i) {
    memory_.records[{"acme", "pay", fmt::format("key-{:04}", i)}] =
        recordIn(i % 2 == 0 ? RecordState::Unknown : RecordState::Completed, i + 1);
  }
  ApiOperatorStore& store = serve();
  const auto page = store.list({}, std::nullopt, 1100);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_THAT(page->records, SizeIs(1100));
  EXPECT_TRUE(page->more);
  for (size_t i = 0; i < page->records.size(); ++i) {
    EXPECT_EQ(page->records[i].record.attempt, static_cast<protocol::Attempt>(i + 1));
  }
  EXPECT_THAT(paths(), SizeIs(3));
  const auto rest = store.list({}, page->records.back().identity, 1100);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_THAT(rest->records, SizeIs(100));
  EXPECT_FALSE(rest->more);
  store::RecordFilter unknown;
  unknown.states = {RecordState::Unknown};
  EXPECT_THAT(store.list(unknown, std::nullopt, 10'000)->records, SizeIs(600));
}

TEST_F(ApiTest, AnAuditLargerThanItsPagesIsPutTogether) {
  for (int i = 1; i <= 700; ++i) {
    store::AuditEntry entry;
    entry.id = i;
    entry.detail = std::to_string(i);
    memory_.audit.push_back(entry);
  }
  const auto page = serve().audit({}, std::nullopt, 650);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_THAT(page->entries, SizeIs(650));
  EXPECT_EQ(page->entries.front().id, 700);
  EXPECT_EQ(page->entries.back().id, 51);
}

TEST_F(ApiTest, AFoundRecordHasItsResponse) {
  store::Record& record = memory_.records[Payment];
  record.state = RecordState::Completed;
  record.status = 201;
  record.response = receipt().response;
  const auto found = serve().find(Payment);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->identity, Payment);
  EXPECT_EQ((*found)->record.response, receipt().response);
  EXPECT_FALSE((*found)->withheld_response.has_value());
}

TEST_F(ApiTest, AResponseThatTheServerDoesNotShowIsWithheld) {
  store::Record& record = memory_.records[Payment];
  record.state = RecordState::Completed;
  record.status = 201;
  record.response = receipt().response;
  protocol::OperatorSettings hidden = settings();
  hidden.show_responses.clear();
  ApiOperatorStore& store = serve(hidden);
  const auto found = store.find(Payment);
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  EXPECT_FALSE((*found)->record.response.has_value());
  ASSERT_TRUE((*found)->withheld_response.has_value());
  EXPECT_EQ((*found)->withheld_response->body_bytes, 2U);
  // What a program is told is what it would be told by the server itself.
  EXPECT_THAT(
      operator_api::encodeRecord(**found, {}, operator_api::ShowResponse::Yes),
      HasSubstr(R"("response":{"status":201,"readable":true,"shown":false,"body_bytes":2})"));
  memory_.records[Payment].response = "damaged";
  EXPECT_THAT(
      operator_api::encodeRecord(**store.find(Payment), {}, operator_api::ShowResponse::Yes),
      HasSubstr(R"("response":{"status":201,"readable":false,"shown":false})"));
}

TEST_F(ApiTest, ARecordThatIsNotThereIsNoError) {
  const auto found = serve().find({"acme", "create-payment", "other"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->has_value());
}

// Access logs of the server, and of what stands before it, have the URL.
TEST_F(ApiTest, ARecordWhoseNamesAreKnownIsAskedForByItsId) {
  ApiOperatorStore& store = serve();
  store::RecordFilter filter;
  filter.tenant = Payment.tenant;
  filter.operation = Payment.operation;
  filter.key = Payment.key;
  const auto listed = store.list(filter, std::nullopt, 2);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_THAT(listed->records, SizeIs(1));
  ASSERT_TRUE(store.find(Payment).ok());
  const auto timeline = store.audit({Payment.tenant, Payment.operation, Payment.key, {}}, {}, 100);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  const std::string path = "/idempotency/v1/records/" + operator_api::recordId(Payment);
  EXPECT_EQ(paths(), (std::vector<std::string>{path, path}));
}

TEST_F(ApiTest, WhatTheServerIsNotAskedForIsFilteredHere) {
  memory_.records[Payment].last_error = "connection_lost";
  ApiOperatorStore& store = serve();
  store::RecordFilter exact;
  exact.tenant = Payment.tenant;
  exact.operation = Payment.operation;
  exact.key = Payment.key;
  const auto count = [&](const auto& change) {
    store::RecordFilter filter = exact;
    change(filter);
    return store.list(filter, std::nullopt, 2)->records.size();
  };
  using Filter = store::RecordFilter;
  EXPECT_EQ(count([](Filter& f) { f.states = {RecordState::Unknown}; }), 1U);
  EXPECT_EQ(count([](Filter& f) { f.states = {RecordState::Completed}; }), 0U);
  EXPECT_EQ(count([](Filter& f) { f.attempt = 11; }), 1U);
  EXPECT_EQ(count([](Filter& f) { f.attempt = 12; }), 0U);
  EXPECT_EQ(count([](Filter& f) { f.error = "connection_lost"; }), 1U);
  EXPECT_EQ(count([](Filter& f) { f.error = "other"; }), 0U);
  EXPECT_EQ(count([](Filter& f) { f.min_age = 5min; }), 1U);
  EXPECT_EQ(count([](Filter& f) { f.min_age = 6min; }), 0U);
  EXPECT_EQ(count([](Filter& f) { f.dead_letters_only = true; }), 0U);
  EXPECT_EQ(count([](Filter& f) { f.key_hash = protocol::keyHash(Payment); }), 1U);
  EXPECT_EQ(count([](Filter& f) { f.key_hash = "0123456789abcdef"; }), 0U);
}

TEST_F(ApiTest, TheTimelineOfAChangedRecordIsNotTheOldOne) {
  ApiOperatorStore& store = serve();
  const store::AuditFilter about = {Payment.tenant, Payment.operation, Payment.key, {}};
  ASSERT_TRUE(store.find(Payment).ok());
  ASSERT_EQ(store.change(change(store::NotRun{}))->outcome, store::ChangeOutcome::Done);
  const auto timeline = store.audit(about, std::nullopt, 100);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_THAT(timeline->entries, SizeIs(1));
  EXPECT_EQ(timeline->entries[0].action, "resolve_not_run");
}

TEST_F(ApiTest, TheAuditOfARecordThatIsGoneIsFound) {
  ApiOperatorStore& store = serve();
  ASSERT_EQ(store.change(change(store::Free{}))->outcome, store::ChangeOutcome::Done);
  const auto entries = store.audit({Payment.tenant, Payment.operation, Payment.key, {}}, {}, 10);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_THAT(entries->entries, SizeIs(1));
}

TEST_F(ApiTest, TheSummarySaysWhetherChangesAreRefused) {
  EXPECT_FALSE(serve().summary()->read_only);
  protocol::OperatorSettings read_only = settings();
  read_only.read_only = true;
  EXPECT_TRUE(serve(read_only).summary()->read_only);
}

// --- Changing

TEST_F(ApiTest, AChangeIsMadeInTheNameThatTheServerKnows) {
  const auto result = serve().change(change(receipt()));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, store::ChangeOutcome::Done);
  EXPECT_EQ(result->found->state, RecordState::Unknown);
  EXPECT_EQ(memory_.records[Payment].response, receipt().response);
  ASSERT_THAT(memory_.audit, SizeIs(1));
  EXPECT_EQ(memory_.audit[0].actor, "alice");
  EXPECT_EQ(memory_.audit[0].detail, "asked the bank");
}

TEST_F(ApiTest, EachActionIsWhatTheServerDoes) {
  ApiOperatorStore& store = serve();
  const std::vector<std::pair<store::OperatorAction, std::string>> actions = {
      {receipt(), "resolve_completed"},
      {store::NotRun{}, "resolve_not_run"},
      {store::AskAgain{.after = 90s, .start_over = true}, "ask_again"},
      {store::Free{}, "release"},
  };
  for (const auto& [action, name] : actions) {
    memory_.records[Payment] = recordIn(RecordState::Unknown, 11);
    ASSERT_EQ(store.change(change(action))->outcome, store::ChangeOutcome::Done) << name;
    EXPECT_EQ(memory_.audit.back().action, name);
  }
  memory_.records[Payment] = recordIn(RecordState::FailedRetryable, 11);
  ASSERT_EQ(store.change(change(store::Bust{}))->outcome, store::ChangeOutcome::Done);
  EXPECT_EQ(memory_.audit.back().action, "bust");
}

TEST_F(ApiTest, ADryRunChangesNothing) {
  EXPECT_EQ(serve().change(change(store::NotRun{}, true))->outcome, store::ChangeOutcome::Done);
  EXPECT_EQ(memory_.records[Payment].state, RecordState::Unknown);
  EXPECT_THAT(memory_.audit, IsEmpty());
}

TEST_F(ApiTest, RefusalsAreOutcomesWithTheRecordAsItIs) {
  ApiOperatorStore& store = serve();
  memory_.records[Payment].attempt = 12;
  const auto stale = store.change(change(store::NotRun{}));
  ASSERT_TRUE(stale.ok()) << stale.status();
  EXPECT_EQ(stale->outcome, store::ChangeOutcome::Stale);
  EXPECT_EQ(stale->found->attempt, 12);
  memory_.records[Payment] = recordIn(RecordState::Completed, 11);
  const auto refused = store.change(change(store::NotRun{}));
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_EQ(refused->outcome, store::ChangeOutcome::Refused);
  EXPECT_EQ(refused->found->state, RecordState::Completed);
  memory_.records.clear();
  EXPECT_EQ(store.change(change(store::NotRun{}))->outcome, store::ChangeOutcome::Absent);
}

TEST_F(ApiTest, APurgeIsLimitedAsTheApiLimitsIt) {
  const auto result =
      serve().purge({.tenant = "acme", .actor = "", .reason = "gone", .dry_run = true}, 1'000'000);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->records, 1U);
  EXPECT_THAT(server_->requests()[0].body, HasSubstr(R"("limit":10000)"));
}

TEST_F(ApiTest, WhatOnlyTheReconcilerDoesIsNotOffered) {
  ApiOperatorStore& store = serve();
  EXPECT_TRUE(absl::IsUnimplemented(store.change(change(store::GiveUp{})).status()));
  EXPECT_TRUE(absl::IsUnimplemented(store.takeDue({}, 1min, 1).status()));
  EXPECT_THAT(paths(), IsEmpty());
}

TEST_F(ApiTest, AReadOnlyApiRefusesChangesAndNothingElse) {
  protocol::OperatorSettings read_only = settings();
  read_only.read_only = true;
  ApiOperatorStore& store = serve(read_only);
  EXPECT_TRUE(store.list({}, std::nullopt, 10).ok());
  for (const absl::Status& status :
       {store.change(change(store::NotRun{})).status(),
        store.purge({.tenant = "acme", .actor = "", .reason = "gone"}, 10).status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_THAT(messageOf(status),
                AllOf(HasSubstr("403 Read-only: This API is configured as read-only"),
                      EndsWith("; nothing was changed")));
  }
}

TEST_F(ApiTest, AnErrorOfTheStoreIsShownAsTheServerSaysIt) {
  memory_.before_call = [] { return absl::UnavailableError("the disk is full"); };
  const absl::Status status = serve().change(change(store::NotRun{})).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(messageOf(status), EndsWith("503 Store unavailable: the disk is full"));
}

TEST_F(ApiTest, AWrongPrefixIsNamed) {
  serve();
  const auto store = openAt(server_->url() + "/elsewhere");
  EXPECT_THAT(messageOf(store->summary().status()),
              AllOf(HasSubstr("404 Not found"), HasSubstr("Check the prefix in --url")));
  // Of a record that is not there, the API itself speaks: this is not one.
  EXPECT_FALSE(store->find(Payment).ok());
}

TEST_F(ApiTest, TheEnvironmentNamesNoProxy) {
  for (const char* const name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
    setenv(name, "http://127.0.0.1:1", 1);
  }
  const absl::Status status = serve().summary().status();
  for (const char* const name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
    unsetenv(name);
  }
  EXPECT_TRUE(status.ok()) << status;
}

// --- Servers that are no such API

store::OperatorChange notRun(bool dry_run = false) {
  return {.seen = {.identity = Payment, .attempt = 11},
          .action = store::NotRun{},
          .actor = "",
          .reason = "asked the bank",
          .dry_run = dry_run};
}

constexpr char Doubt[] = "; the change may have been made: look at the record before you repeat it";

struct Answered {
  std::string name;
  int status;
  std::string media_type;
  std::string body;
  std::string said;  // Part of the message.
  bool changed;      // Whether a change may have been made.
};

class AnswerTest : public testing::TestWithParam<Answered> {};

TEST_P(AnswerTest, IsAnErrorThatSaysWhatCameAndWhatBecameOfTheChange) {
  const Answered& given = GetParam();
  HttpServer server([&](const HttpRequest&, HttpPeer& peer) {
    peer.answer(given.status, given.media_type, given.body);
  });
  const auto store = openAt(server.url());
  const absl::Status looked = store->summary().status();
  EXPECT_TRUE(absl::IsUnavailable(looked));
  EXPECT_THAT(messageOf(looked), AllOf(HasSubstr(server.url() + "/idempotency: "),
                                       HasSubstr(given.said), Not(HasSubstr("changed"))));
  EXPECT_FALSE(store->list({}, std::nullopt, 10).ok());
  EXPECT_FALSE(store->find(Payment).ok());
  EXPECT_FALSE(store->audit({}, std::nullopt, 10).ok());
  for (const absl::Status& status :
       {store->change(notRun()).status(),
        store->purge({.tenant = "acme", .actor = "", .reason = "gone"}, 10).status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_THAT(messageOf(status), HasSubstr(given.said));
    EXPECT_THAT(messageOf(status), EndsWith(given.changed ? Doubt : "; nothing was changed"));
  }
  EXPECT_THAT(messageOf(store->change(notRun(true)).status()), Not(HasSubstr("may have been")));
}

constexpr char Problem[] = "application/problem+json";

INSTANTIATE_TEST_SUITE_P(
    All, AnswerTest,
    testing::Values(
        Answered{"Html", 200, "text/html", "<html>", "200 with text/html instead of JSON", true},
        Answered{"Untyped", 200, "", "{}", "200 with no content type instead of JSON", true},
        Answered{"NoContent", 204, "application/json", "", "this is not the operator API", true},
        Answered{"Garbage", 200, "application/json", "{]", "cannot be read", true},
        Answered{"OtherJson", 200, "application/json", "[1]", "cannot be read", true},
        Answered{"Redirect", 302, "text/plain", "", "redirects are not followed", true},
        Answered{"Unauthorized", 401, "text/plain", "Jwt is missing",
                 "status 401: Jwt is missing. It asks for credentials: see --header-file", false},
        Answered{"Denied", 403, "text/plain", "RBAC: access denied",
                 "status 403: RBAC: access denied", false},
        Answered{"NotFound", 404, "text/html", "<html>", "Check the prefix in --url", false},
        Answered{"Method", 405, "text/html", "<html>", "status 405", false},
        Answered{"Timeout", 408, "text/plain", "slow", "status 408: slow", true},
        Answered{"Conflict", 409, "text/plain", "", "status 409", true},
        Answered{"OtherConflict", 409, Problem, R"({"code":"other","title":"Other"})", "409 Other",
                 true},
        Answered{"TooLarge", 413, Problem, R"({"code":"too_large","title":"Too large"})",
                 "413 Too large", false},
        Answered{"Upstream", 503, "text/plain", "no healthy upstream",
                 "status 503: no healthy upstream", true},
        Answered{"BrokenProblem", 500, Problem, "{", "status 500", true},
        Answered{"EmptyProblem", 500, Problem, "{}", "500", true},
        Answered{"ControlCharacters", 500, Problem,
                 R"({"title":"a\u001b[31mb\u009bc","detail":"d\r\ne"})", "500 a [31mb c: d e",
                 true}),
    [](const auto& instance) { return instance.param.name; });

TEST(HostileServerTest, AnEndlessBodyEndsAtItsBound) {
  HttpServer server([](const HttpRequest&, HttpPeer& peer) {
    peer.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n");
    const std::string piece(65536, ' ');
    while (peer.send(piece)) {
    }
  });
  const auto store = openAt(server.url());
  EXPECT_THAT(messageOf(store->summary().status()),
              HasSubstr("the answer is too long: more than 1048576 bytes"));
  EXPECT_THAT(messageOf(store->change(notRun()).status()), EndsWith(Doubt));
}

TEST(HostileServerTest, EndlessHeadersEndAtTheirBound) {
  HttpServer server([](const HttpRequest&, HttpPeer& peer) {
    peer.send("HTTP/1.1 200 OK\r\n");
    while (peer.send("x-more: of the same\r\n")) {
    }
  });
  EXPECT_THAT(messageOf(openAt(server.url())->summary().status()),
              HasSubstr("the answer is too long"));
}

TEST(HostileServerTest, EndlessInterimAnswersEndAtTheirBound) {
  HttpServer server([](const HttpRequest&, HttpPeer& peer) {
    while (peer.send("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")) {
    }
  });
  EXPECT_THAT(messageOf(openAt(server.url())->summary().status()),
              HasSubstr("the answer is too long"));
}

TEST(HostileServerTest, ASlowAnswerEndsAtTheTimeLimit) {
  HttpServer server([](const HttpRequest&, HttpPeer& peer) {
    peer.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{");
    peer.waitUntilGone();
  });
  const auto store = openAt(server.url(), 200ms);
  EXPECT_THAT(messageOf(store->summary().status()),
              AllOf(HasSubstr("timed out"), HasSubstr("--timeout sets how long to wait")));
  EXPECT_THAT(messageOf(store->change(notRun()).status()), EndsWith(Doubt));
}

// libcurl sends a request again if a connection that it has used before breaks. The server may have
// carried out the first one.
TEST(HostileServerTest, AChangeIsSentOnce) {
  HttpServer server([](const HttpRequest& request, HttpPeer& peer) {
    if (request.method == "GET") {
      return peer.answer(404, Problem,
                         R"({"code":"record_not_found","title":"Record not found","status":404})");
    }
    peer.close();
  });
  const auto store = openAt(server.url());
  ASSERT_TRUE(store->find(Payment).ok());
  EXPECT_THAT(messageOf(store->change(notRun()).status()), EndsWith(Doubt));
  ASSERT_THAT(server.requests(), SizeIs(2));
  EXPECT_EQ(server.requests()[1].method, "POST");
}

TEST(HostileServerTest, ARedirectIsNotFollowed) {
  HttpServer server([](const HttpRequest&, HttpPeer& peer) {
    peer.send("HTTP/1.1 307 Other\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n");
  });
  const auto store = openAt(server.url());
  EXPECT_FALSE(store->summary().ok());
  EXPECT_FALSE(store->change(notRun()).ok());
  for (const HttpRequest& request : server.requests()) {
    EXPECT_THAT(request.path, testing::StartsWith("/idempotency/v1/"));
  }
}

TEST(HostileServerTest, AnotherRecordThanTheOneAskedForIsAnError) {
  store::ListedRecord other;
  other.identity = {"acme", "create-payment", "other"};
  other.record = recordIn(RecordState::Completed, 12);
  HttpServer server([&](const HttpRequest&, HttpPeer& peer) {
    peer.answer(200, "application/json",
                operator_api::encodeRecord(other, {}, operator_api::ShowResponse::No));
  });
  EXPECT_THAT(messageOf(openAt(server.url())->find(Payment).status()),
              HasSubstr("not the one that was asked for"));
}

TEST(HostileServerTest, APageWithoutEndIsAnError) {
  HttpServer server([&](const HttpRequest&, HttpPeer& peer) {
    peer.answer(200, "application/json", R"({"records":[],"entries":[],"next_cursor":"r"})");
  });
  const auto store = openAt(server.url());
  EXPECT_FALSE(store->list({}, std::nullopt, 10).ok());
  EXPECT_FALSE(store->audit({}, std::nullopt, 10).ok());
}

TEST(HostileServerTest, WhereNobodyListensNothingIsChanged) {
  std::string url;
  {
    const HttpServer gone([](const HttpRequest&, HttpPeer&) {});
    url = gone.url();
  }
  const auto store = openAt(url);
  EXPECT_TRUE(absl::IsUnavailable(store->summary().status()));
  EXPECT_THAT(messageOf(store->change(notRun()).status()), EndsWith("; nothing was changed"));
}

TEST(HostileServerTest, HeadersGoWithEveryRequest) {
  HttpServer server([](const HttpRequest&, HttpPeer& peer) { peer.answer(500, "", ""); });
  const auto store = openAt(server.url());
  (void)store->summary();
  (void)store->change(notRun());
  ASSERT_THAT(server.requests(), SizeIs(2));
  for (const HttpRequest& request : server.requests()) {
    EXPECT_EQ(request.headers.at("x-operator"), "alice");
  }
  EXPECT_EQ(server.requests()[1].headers.at("content-type"), "application/json");
}

TEST(ApiAccessTest, AnAddressThatIsNoneIsAMistakeInTheCall) {
  ApiAccess access;
  access.url = "nonsense";
  EXPECT_TRUE(absl::IsInvalidArgument(ApiOperatorStore::open(access).status()));
}

}  // namespace
}  // namespace idempotency::operator_client
