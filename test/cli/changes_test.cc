// The commands that change the store: what they ask for, what they ask the operator, and what they
// send to the store.
#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <absl/status/status.h>

#include "source/cli/change_command.h"
#include "source/cli/purge_command.h"
#include "source/message/stored_response.h"
#include "source/protocol/key_hash.h"
#include "test/cli/operator_program.h"

namespace idempotency::cli {
namespace {

using protocol::RecordState;
using test::operatorWorld;
using test::Ran;
using test::recordIn;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

using Words = std::vector<std::string>;

class ChangesTest : public testing::Test {
protected:
  ChangesTest() {
    test::resetOperatorWorld();
    operatorWorld().records[Payment] = recordIn(RecordState::Unknown, 11);
  }

  static Ran run(Words words, const std::optional<std::string>& typed = std::nullopt) {
    const std::array commands = {ResolveCommand, AskAgainCommand, ReleaseCommand, BustCommand,
                                 PurgeCommand};
    words.insert(words.end(), {"--reason", "asked the bank"});
    return test::runProgram(commands, words, typed);
  }
  // The changes that were not dry runs.
  static std::vector<store::OperatorChange> made() {
    std::vector<store::OperatorChange> changes;
    for (const store::OperatorChange& change : operatorWorld().changes) {
      if (!change.dry_run) {
        changes.push_back(change);
      }
    }
    return changes;
  }

  inline static const protocol::Identity Payment = {"acme", "create-payment", "key-1"};
  inline static const Words NotRunYes = {"records",   "resolve", "--not-run",
                                         "--attempt", "11",      "--yes"};
};

TEST_F(ChangesTest, YesChangesTheRecordThatHasTheAttempt) {
  Words words = NotRunYes;
  words.insert(words.end(), {"--actor", "alice"});
  const Ran ran = run(words);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("Done.\nThe next request with this key runs."));
  EXPECT_THAT(ran.question, IsEmpty());
  ASSERT_THAT(operatorWorld().changes, SizeIs(1));
  const store::OperatorChange& change = operatorWorld().changes[0];
  EXPECT_EQ(change.seen.identity, Payment);
  EXPECT_EQ(change.seen.attempt, 11);
  EXPECT_TRUE(std::holds_alternative<store::NotRun>(change.action));
  EXPECT_EQ(change.actor, "alice");
  EXPECT_EQ(change.reason, "asked the bank");
  EXPECT_FALSE(change.dry_run);
}

TEST_F(ChangesTest, TheActorIsTheUserAndTheHostUnlessItIsGiven) {
  run(NotRunYes);
  EXPECT_THAT(made().at(0).actor, testing::ContainsRegex("^.+@.+$"));
}

TEST_F(ChangesTest, WithoutYesItShowsTheRecordAndTheConsequenceAndAsks) {
  const Ran ran = run({"records", "resolve", "--not-run", "--attempt", "11"}, "yes");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.question, "Type yes to continue: ");
  EXPECT_THAT(ran.err, HasSubstr("attempt:        11\n"));
  EXPECT_THAT(ran.err, HasSubstr("The next request with this key runs."));
  EXPECT_THAT(made(), SizeIs(1));
}

TEST_F(ChangesTest, WithoutAnAttemptItComparesWithWhatItShowed) {
  const std::string hash = protocol::keyHash(Payment);
  EXPECT_EQ(run({"records", "release", "--key-hash", hash}, "yes").code, 0);
  ASSERT_THAT(made(), SizeIs(1));
  EXPECT_EQ(made()[0].seen.attempt, 11);
}

TEST_F(ChangesTest, AnyOtherAnswerChangesNothing) {
  for (const char* const typed : {"", "y", "no", "YES", "yes please"}) {
    const Ran ran = run({"records", "resolve", "--not-run", "--attempt", "11"}, typed);
    EXPECT_EQ(ran.code, 1) << typed;
    EXPECT_THAT(ran.err, HasSubstr("not confirmed; nothing was changed"));
  }
  EXPECT_THAT(made(), IsEmpty());
}

TEST_F(ChangesTest, WithoutATerminalItNeedsYes) {
  const Ran ran = run({"records", "resolve", "--not-run", "--attempt", "11"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("there is no terminal to ask for confirmation: use --yes"));
  EXPECT_THAT(made(), IsEmpty());
}

TEST_F(ChangesTest, YesNeedsTheAttempt) {
  const Ran ran =
      run({"records", "resolve", "--not-run", "--key-hash", protocol::keyHash(Payment), "--yes"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--yes requires --attempt"));
  EXPECT_THAT(operatorWorld().changes, IsEmpty());
}

TEST_F(ChangesTest, AStaleAttemptIsRefusedWithTheNewOne) {
  const std::string hash = protocol::keyHash(Payment);
  for (const Words& more : {Words{"--yes"}, Words{"--dry-run"}, Words{}}) {
    Words words = {"records", "resolve", "--not-run", "--key-hash", hash, "--attempt", "10"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run(words, "yes");
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, HasSubstr("nothing was changed: another request has claimed the record "
                                   "since; its attempt is now 11."));
    EXPECT_THAT(ran.question, IsEmpty());
  }
}

TEST_F(ChangesTest, AnAttemptThatNoRecordHasIsRefused) {
  const Ran ran = run({"records", "release", "--attempt", "10", "--yes"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("no record matches"));
}

TEST_F(ChangesTest, DryRunChangesNothingAndSaysWhatWould) {
  const Ran ran = run({"records", "bust", "--attempt", "11", "--dry-run"});
  EXPECT_EQ(ran.code, 1) << "unknown records are never bust";
  operatorWorld().records[Payment] = recordIn(RecordState::Completed, 11);
  const Ran allowed = run({"records", "bust", "--attempt", "11", "--dry-run", "--yes"});
  EXPECT_EQ(allowed.code, 0);
  EXPECT_THAT(allowed.out, HasSubstr("Dry run: nothing was changed."));
  EXPECT_THAT(allowed.out, HasSubstr("The next request with this key runs again."));
  EXPECT_THAT(made(), IsEmpty());
}

TEST_F(ChangesTest, CompletedStoresTheResponseAsTheFilterDoes) {
  const std::string body = test::temporaryFile("body", "{\"id\":1}\n");
  const Ran ran =
      run({"records", "resolve", "--status", "201", "--header", "Content-Type: application/json",
           "--header", "X-A:  b c ", "--body-file", body, "--attempt", "11", "--yes"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("with status 201. The request does not run again."));
  const auto changes = made();
  ASSERT_THAT(changes, SizeIs(1));
  const auto& completed = std::get<protocol::Completed>(changes[0].action);
  EXPECT_EQ(completed.status, 201);
  EXPECT_EQ(completed.tombstone, protocol::Tombstone::None);
  EXPECT_EQ(completed.response_schema, protocol::ResponseSchema);
  const protocol::StoredResponse wanted = {
      .status = 201,
      .headers = {{"content-type", "application/json"}, {"x-a", "b c"}},
      .body = "{\"id\":1}\n",
      .trailers = {}};
  EXPECT_EQ(*message::parseResponse(completed.response), wanted);
}

TEST_F(ChangesTest, AResponseThatMustNotBeReplayedIsAUsageError) {
  for (const Words& words :
       {Words{"--status", "199"}, Words{"--status", "600"}, Words{"--status", "x"},
        Words{"--status", "200", "--header", "nonsense"},
        Words{"--status", "200", "--header", "a b: c"},
        Words{"--status", "200", "--header", "a: b\nc: d"},
        Words{"--status", "200", "--header", ": x"},
        Words{"--status", "200", "--header", "Set-Cookie: a=b"},
        Words{"--status", "200", "--header", "Content-Length: 3"},
        Words{"--status", "200", "--header", "Idempotent-Replayed: true"},
        Words{"--status", "200", "--not-run"}, Words{}, Words{"--not-run", "--header", "a: b"},
        Words{"--status", "200", "--body-file", "-", "--key-stdin"}}) {
    Words all = {"records", "resolve", "--attempt", "11", "--yes"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(run(all).code, 2) << testing::PrintToString(words);
  }
  EXPECT_THAT(operatorWorld().opened, IsEmpty());
}

TEST_F(ChangesTest, EveryCommandHasItsAction) {
  const Words seen = {"--attempt", "11", "--yes"};
  const auto with = [&](Words words) {
    words.insert(words.end(), seen.begin(), seen.end());
    return run(words);
  };
  with({"records", "ask-again"});
  with({"records", "release"});
  with({"records", "bust"});
  const auto changes = made();
  ASSERT_THAT(changes, SizeIs(3));
  EXPECT_TRUE(std::get<store::AskAgain>(changes[0].action).start_over);
  EXPECT_EQ(std::get<store::AskAgain>(changes[0].action).after.count(), 0);
  EXPECT_TRUE(std::holds_alternative<store::Free>(changes[1].action));
  EXPECT_TRUE(std::holds_alternative<store::Bust>(changes[2].action));
}

TEST_F(ChangesTest, ARefusalSaysWhatTheStateMeans) {
  const auto refusal = [](RecordState state, const Words& command) {
    operatorWorld().records[Payment] = recordIn(state, 11);
    Words words = {"records"};
    words.insert(words.end(), command.begin(), command.end());
    words.insert(words.end(), {"--attempt", "11", "--yes"});
    const Ran ran = run(words);
    EXPECT_EQ(ran.code, 1);
    return ran.err;
  };
  EXPECT_THAT(refusal(RecordState::InProgress, {"resolve", "--not-run"}),
              HasSubstr("the request is running (its lease lasts for another 12s)"));
  EXPECT_THAT(refusal(RecordState::Unknown, {"bust"}), HasSubstr("records resolve"));
  EXPECT_THAT(refusal(RecordState::Completed, {"release"}), HasSubstr("records bust"));
  EXPECT_THAT(refusal(RecordState::FailedRetryable, {"ask-again"}),
              HasSubstr("the next request with the key runs already"));
  EXPECT_THAT(refusal(RecordState::Expired, {"release"}), HasSubstr("expired"));
}

TEST_F(ChangesTest, AnErrorOfTheStoreExitsWith3AndKeepsItsWords) {
  for (const Words& more : {Words{"--yes"}, Words{"--dry-run"}}) {
    test::resetOperatorWorld();
    operatorWorld().records[Payment] = recordIn(RecordState::Unknown, 11);
    operatorWorld().failure = absl::DataLossError("the change may have been made");
    Words words = {"records", "resolve", "--not-run", "--attempt", "11"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run(words);
    EXPECT_EQ(ran.code, 3);
    EXPECT_THAT(ran.err, HasSubstr("the change may have been made"));
  }
}

TEST_F(ChangesTest, JsonIsThatOfTheOperatorApi) {
  Words words = NotRunYes;
  words.emplace_back("--json");
  EXPECT_THAT(run(words).out, HasSubstr(R"("action":"resolve_not_run")"));
}

TEST_F(ChangesTest, ARecordMustBeNamed) {
  const Ran ran = run({"records", "release", "--tenant", "acme"}, "yes");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("say which record"));
}

TEST_F(ChangesTest, AReasonAndAnActorAreNeverEmpty) {
  const std::array commands = {ReleaseCommand};
  for (const Words& words :
       {Words{}, Words{"--reason", ""}, Words{"--reason", "  "}, Words{"--reason", "a\x1b"},
        Words{"--reason", std::string(1001, 'x')}, Words{"--reason", "a", "--actor", ""}}) {
    Words all = {"records", "release", "--attempt", "11", "--yes"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(test::runProgram(commands, all).code, 2) << testing::PrintToString(words);
  }
  EXPECT_THAT(operatorWorld().changes, IsEmpty());
}

// --- tenants purge

TEST_F(ChangesTest, PurgeAsksForTheNameOfTheTenant) {
  EXPECT_EQ(run({"tenants", "purge", "--tenant", "acme"}, "yes").code, 1);
  EXPECT_THAT(operatorWorld().records, SizeIs(1));
  const Ran ran = run({"tenants", "purge", "--tenant", "acme"}, "acme");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("deletes 1 records with their responses, 1 of them"));
  EXPECT_THAT(operatorWorld().records, IsEmpty());
}

TEST_F(ChangesTest, PurgeTakesEverythingOfTheTenantAndNothingElse) {
  for (int i = 0; i < 2500; ++i) {
    operatorWorld().records[{"acme", "o", "key-" + std::to_string(i)}] =
        recordIn(RecordState::Completed, 1);
  }
  operatorWorld().records[{"acme2", "o", "k"}] = recordIn(RecordState::Completed, 1);
  const Ran ran = run({"tenants", "purge", "--tenant", "acme", "--yes", "--json"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr(R"("records":2501,"unsettled":1)"));
  EXPECT_THAT(operatorWorld().records, SizeIs(1));
  EXPECT_THAT(operatorWorld().purges, SizeIs(3)) << "in steps";
}

TEST_F(ChangesTest, PurgeCanBeTriedOut) {
  const Ran ran = run({"tenants", "purge", "--tenant", "acme", "--dry-run"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("Dry run: nothing was changed."));
  EXPECT_THAT(operatorWorld().records, SizeIs(1));
}

TEST_F(ChangesTest, PurgeNeedsATenant) {
  EXPECT_EQ(run({"tenants", "purge", "--yes"}).code, 2);
  EXPECT_THAT(operatorWorld().purges, IsEmpty());
}

}  // namespace
}  // namespace idempotency::cli
