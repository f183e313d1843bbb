// The commands that look: what they ask the store for, and what they print.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <absl/status/status.h>

#include "source/cli/audit_command.h"
#include "source/cli/list_command.h"
#include "source/cli/purge_command.h"
#include "source/cli/show_command.h"
#include "source/cli/summary_command.h"
#include "source/cli/watch_command.h"
#include "source/message/stored_response.h"
#include "source/protocol/key_hash.h"
#include "test/cli/operator_program.h"

namespace idempotency::cli {
namespace {

using protocol::RecordState;
using test::operatorWorld;
using test::Ran;
using test::recordIn;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using namespace std::chrono_literals;

using Words = std::vector<std::string>;

class RecordsTest : public testing::Test {
protected:
  RecordsTest() { test::resetOperatorWorld(); }

  static Ran run(const Words& words) {
    const std::array commands = {ListCommand,    ShowCommand,  AuditListCommand,
                                 SummaryCommand, WatchCommand, PurgeCommand};
    return test::runProgram(commands, words);
  }
  static void add(const std::string& key, RecordState state, protocol::Attempt attempt,
                  const std::string& tenant = "acme") {
    operatorWorld().records[{tenant, "create-payment", key}] = recordIn(state, attempt);
  }
  // Newer than those before it. No identity: it is about many records.
  static void addEntry(const std::string& actor, const std::string& action,
                       std::optional<protocol::Identity> identity = std::nullopt,
                       const std::string& detail = "") {
    store::AuditEntry entry;
    entry.id = static_cast<int64_t>(operatorWorld().audit.size()) + 1;
    entry.actor = actor;
    entry.action = action;
    entry.identity = std::move(identity);
    entry.detail = detail;
    operatorWorld().audit.insert(operatorWorld().audit.begin(), entry);
  }
};

TEST_F(RecordsTest, ListShowsARowForEachRecord) {
  add("key-1", RecordState::Unknown, 11);
  operatorWorld().records.begin()->second.last_error = "upstream_timeout";
  add("key-2", RecordState::InProgress, 22);
  const Ran ran = run({"records", "list"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(
      ran.out,
      "STATE        AGE    TENANT  OPERATION       KEY    ATTEMPT  ERROR             NOTE\n"
      "unknown      5m 0s  acme    create-payment  key-1  11       upstream_timeout\n"
      "in_progress  5m 0s  acme    create-payment  key-2  22       -                 lease for "
      "12s\n");
}

TEST_F(RecordsTest, ListPassesEveryFilterToTheStore) {
  const std::string key = test::temporaryFile("key", "my-key\n");
  ASSERT_EQ(run({"records",
                 "list",
                 "--state",
                 "unknown",
                 "--state=expired",
                 "--tenant",
                 "t",
                 "--operation",
                 "o",
                 "--key-file",
                 key,
                 "--key-hash",
                 "0123456789abcdef",
                 "--attempt",
                 "9223372036854775807",
                 "--error",
                 "lease_expired",
                 "--min-age",
                 "5m",
                 "--dead-letters"})
                .code,
            0);
  ASSERT_THAT(operatorWorld().filters, SizeIs(1));
  const store::RecordFilter& filter = operatorWorld().filters[0];
  EXPECT_THAT(filter.states, ElementsAre(RecordState::Unknown, RecordState::Expired));
  EXPECT_EQ(filter.tenant, "t");
  EXPECT_EQ(filter.operation, "o");
  EXPECT_EQ(filter.key, "my-key");
  EXPECT_EQ(filter.key_hash, "0123456789abcdef");
  EXPECT_EQ(filter.attempt, INT64_MAX);
  EXPECT_EQ(filter.error, "lease_expired");
  EXPECT_EQ(filter.min_age, 5min);
  EXPECT_TRUE(filter.dead_letters_only);
}

TEST_F(RecordsTest, AnOptionThatIsNotGivenFiltersNothing) {
  ASSERT_EQ(run({"records", "list"}).code, 0);
  const store::RecordFilter& filter = operatorWorld().filters.at(0);
  EXPECT_THAT(filter.states, IsEmpty());
  EXPECT_FALSE(filter.tenant || filter.operation || filter.key || filter.key_hash ||
               filter.attempt || filter.error || filter.min_age || filter.dead_letters_only);
}

TEST_F(RecordsTest, ACursorLeadsToTheNextPage) {
  for (const char* const key : {"a", "b", "c"}) {
    add(key, RecordState::Unknown, 1);
  }
  const Ran first = run({"records", "list", "--limit", "2"});
  EXPECT_THAT(first.out, HasSubstr("\nThere are more."));
  const size_t line = first.out.rfind('\n', first.out.size() - 2) + 1;
  const std::string cursor = test::temporaryFile("cursor", first.out.substr(line));
  const Ran second = run({"records", "list", "--limit", "2", "--after", cursor});
  EXPECT_THAT(second.out, HasSubstr("  c  "));
  EXPECT_THAT(second.out, Not(HasSubstr("  b  ")));
  EXPECT_THAT(second.out, Not(HasSubstr("There are more")));
}

TEST_F(RecordsTest, WhatIsNoCursorIsRefused) {
  const std::string file = test::temporaryFile("no-cursor", "my-key\n");
  const Ran ran = run({"records", "list", "--after", file});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("there is no cursor in it"));
  EXPECT_THAT(ran.err, Not(HasSubstr("my-key")));
}

TEST_F(RecordsTest, NothingOfARecordReachesTheTerminalAsItIs) {
  operatorWorld().records[{"\x1b[2J", "\xff", "a\nb"}] = recordIn(RecordState::Unknown, 1);
  addEntry("\x1b[2J", "release", protocol::Identity{"\x1b[2J", "\xff", "a\nb"}, "\x1b]0;x");
  for (const Words& words : {Words{"records", "list"}, Words{"records", "show"},
                             Words{"audit", "list"}, Words{"records", "list", "--json"}}) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.code, 0) << words[0] << words[1];
    EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
    EXPECT_THAT(ran.out, HasSubstr("a\\nb"));
  }
}

TEST_F(RecordsTest, JsonIsThatOfTheOperatorApi) {
  add("key-1", RecordState::Unknown, 9'007'199'254'740'993);
  EXPECT_THAT(run({"records", "list", "--json"}).out, HasSubstr(R"("attempt":"9007199254740993")"));
  EXPECT_THAT(run({"records", "show", "--json"}).out, HasSubstr(R"("timeline":[])"));
  EXPECT_THAT(run({"audit", "list", "--json"}).out, HasSubstr(R"("entries":[])"));
  EXPECT_THAT(run({"summary", "--json"}).out, HasSubstr(R"("unsettled":[])"));
}

TEST_F(RecordsTest, AnArgumentNeverHoldsAKey) {
  for (const char* const word : {"list", "show"}) {
    const Ran ran = run({"records", word, "--key", "my-key"});
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr("--key is not accepted: other users of this machine can see"));
    EXPECT_THAT(run({"records", word, "--help"}).out, Not(HasSubstr("--key ")));
  }
  EXPECT_THAT(operatorWorld().opened, IsEmpty());
}

TEST_F(RecordsTest, BadOptionsAreRefusedBeforeTheStoreIsOpened) {
  const std::string empty = test::temporaryFile("empty", "\n");
  for (const Words& words :
       {Words{"--state", "lost"}, Words{"--min-age", "soon"}, Words{"--attempt", "0"},
        Words{"--attempt", "9223372036854775808"}, Words{"--limit", "0"},
        Words{"--key-hash", "0123456789ABCDEF"}, Words{"--key-file", empty},
        Words{"--key-file", "/nonexistent"}, Words{"--key-stdin", "--key-file", empty},
        Words{"--key-stdin", "--after", "-"}, Words{"--timeout", "0"},
        Words{"--sqlite", "x", "--conninfo", "y"}}) {
    Words all = {"records", "list"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(run(all).code, 2) << words[0];
  }
  EXPECT_THAT(operatorWorld().opened, IsEmpty());
}

TEST_F(RecordsTest, ShowTellsEverythingButTheResponse) {
  const protocol::Identity identity = {"acme", "create-payment", "key-1"};
  store::Record record = recordIn(RecordState::Completed, 11);
  record.status = 201;
  record.response = message::serializeResponse(
      {.status = 201, .headers = {{"x-a", "1"}}, .body = "secret body", .trailers = {}});
  operatorWorld().records[identity] = record;
  addEntry("bob", "release", protocol::Identity{"acme", "create-payment", "key-2"}, "another key");
  addEntry("alice", "resolve_completed", identity, "asked the bank");
  const Ran ran = run({"records", "show", "--attempt", "11"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("state:          completed, status 201\n"));
  EXPECT_THAT(ran.out, HasSubstr("key hash:       " + protocol::keyHash(identity) + "\n"));
  EXPECT_THAT(ran.out, HasSubstr("fingerprint:    02ab\n"));
  EXPECT_THAT(ran.out, HasSubstr("asked the bank"));
  EXPECT_THAT(ran.out, Not(HasSubstr("another key")));
  EXPECT_THAT(ran.out, Not(HasSubstr("secret body")));
  EXPECT_THAT(run({"records", "show", "--response"}).out,
              HasSubstr("status 201\n  x-a: 1\n\nsecret body\n"));
}

TEST_F(RecordsTest, ShowFindsByHashAndRefusesWhatIsNotUnique) {
  add("key-1", RecordState::Unknown, 11);
  add("key-1", RecordState::Unknown, 12, "other");
  const std::string hash = protocol::keyHash({"other", "create-payment", "key-1"});
  EXPECT_THAT(run({"records", "show", "--key-hash", hash}).out, HasSubstr("attempt:        12\n"));
  const std::string key = test::temporaryFile("key", "key-1");
  const Ran several = run({"records", "show", "--key-file", key});
  EXPECT_EQ(several.code, 1);
  EXPECT_THAT(several.err, HasSubstr("more than one record matches: add --tenant"));
  EXPECT_THAT(run({"records", "show", "--key-file", key, "--tenant", "acme"}).out,
              HasSubstr("attempt:        11\n"));
}

TEST_F(RecordsTest, ShowSaysWhyNothingWasFound) {
  EXPECT_EQ(run({"records", "show"}).code, 1);
  EXPECT_THAT(run({"records", "show", "--attempt", "5"}).err,
              HasSubstr("another request has claimed the record since"));
  const std::string key = test::temporaryFile("key", "\"quoted-key\"\n");
  EXPECT_THAT(run({"records", "show", "--key-file", key}).err, HasSubstr("leave them out"));
}

TEST_F(RecordsTest, AuditIsPagedByIds) {
  for (int i = 0; i < 5; ++i) {
    addEntry("alice", "purge");
  }
  const Ran first = run({"audit", "list", "--limit", "2"});
  EXPECT_THAT(first.out, HasSubstr("--before 4\n"));
  const Ran second = run({"audit", "list", "--limit", "9", "--before", "4"});
  EXPECT_THAT(second.out, HasSubstr("\n3   "));
  EXPECT_THAT(second.out, Not(HasSubstr("\n4   ")));
  EXPECT_THAT(second.out, Not(HasSubstr("--before")));
  EXPECT_EQ(run({"audit", "list", "--before", "yesterday"}).code, 2);
}

TEST_F(RecordsTest, AuditFindsAKeyByTheHashOfItsRecord) {
  add("key-1", RecordState::Unknown, 11);
  addEntry("sweep", "expire");
  addEntry("alice", "ask_again", protocol::Identity{"acme", "create-payment", "key-1"});
  const std::string hash = protocol::keyHash({"acme", "create-payment", "key-1"});
  const Ran ran = run({"audit", "list", "--key-hash", hash});
  EXPECT_THAT(ran.out, HasSubstr("ask_again"));
  EXPECT_THAT(ran.out, Not(HasSubstr("expire")));
}

TEST_F(RecordsTest, SummaryAnswersTheFirstQuestions) {
  operatorWorld().summary.unsettled = {
      {.operation = "create-payment", .records = 7, .dead_letters = 2, .oldest = 3h}};
  operatorWorld().summary.tenants = {{.tenant = "acme", .records = 4, .oldest = 3h}};
  operatorWorld().summary.tenants_complete = false;
  operatorWorld().summary.states = {{RecordState::Unknown, 7}};
  const Ran ran = run({"summary"});
  EXPECT_THAT(ran.out, HasSubstr("create-payment  7        2             3h 0m\n"));
  EXPECT_THAT(ran.out, HasSubstr("acme    at least 4  3h 0m\n"));
  EXPECT_THAT(ran.out, HasSubstr("unknown 7"));
  EXPECT_THAT(ran.out, HasSubstr("none: no Envoy runs the background jobs"));
}

TEST_F(RecordsTest, WatchPrintsOneFrameWithoutATerminal) {
  add("key-1", RecordState::Unknown, 11);
  const Ran ran = run({"watch", "--once"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("key-1"));
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
}

TEST_F(RecordsTest, AStoreThatDoesNotAnswerExitsWith3) {
  for (const Words& words :
       {Words{"records", "list"}, Words{"records", "show"}, Words{"audit", "list"},
        Words{"summary"}, Words{"watch", "--once"},
        Words{"tenants", "purge", "--tenant", "t", "--reason", "r", "--yes"}}) {
    test::resetOperatorWorld();
    operatorWorld().failure = absl::InternalError("the disk is full");
    const Ran failed = run(words);
    EXPECT_EQ(failed.code, 3) << words[0];
    EXPECT_THAT(failed.err, HasSubstr("the disk is full"));
    operatorWorld().open_failure = absl::FailedPreconditionError("schema version 3");
    EXPECT_EQ(run(words).code, 3) << words[0];
  }
}

TEST_F(RecordsTest, AConnectionStringThatIsNoneIsAUsageError) {
  operatorWorld().open_failure = absl::InvalidArgumentError("not a connection string");
  EXPECT_EQ(run({"summary", "--conninfo", "nonsense"}).code, 2);
}

TEST_F(RecordsTest, TheStoreIsTheOneThatTheOptionsName) {
  const std::string file = test::temporaryFile("password", "secret\n");
  run({"summary", "--conninfo", "host=db", "--password-file", file, "--timeout", "3"});
  run({"summary", "--sqlite", "/var/lib/a.db"});
  run({"summary"});
  const auto& opened = operatorWorld().opened;
  ASSERT_THAT(opened, SizeIs(3));
  const auto& postgres = std::get<store::PostgresAccess>(opened[0]);
  EXPECT_EQ(postgres.conninfo, "host=db");
  EXPECT_EQ(postgres.password, "secret");
  EXPECT_EQ(postgres.timeout, 3s);
  EXPECT_EQ(std::get<store::SqliteAccess>(opened[1]).path, "/var/lib/a.db");
  EXPECT_EQ(std::get<store::PostgresAccess>(opened[2]).conninfo, "");
}

}  // namespace
}  // namespace idempotency::cli
