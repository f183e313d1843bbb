// What is PostgreSQL's own about the operators' store: lost connections, locks, roles, and the
// table of unknown records.
#include <atomic>
#include <fmt/format.h>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/protocol/key_hash.h"
#include "source/store/postgres/postgres_operator_store.h"
#include "test/store/postgres/postgres_rig.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class PostgresOperatorTest : public ::testing::Test {
protected:
  PostgresRig rig_;

  static protocol::Identity identity(const std::string& key) {
    return {"tenant", "operation", key};
  }
  store::ClaimRef mustClaim(const protocol::Identity& identity) {
    store::ClaimRequest request;
    request.identity = identity;
    request.fingerprint = std::string(33, 'f');
    request.attempt = store::newAttempt();
    Answer<store::ClaimResult> answer;
    rig_.store().claim(request, soon(), answer.callback());
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
    return {identity, request.attempt};
  }
  void settle(const store::ClaimRef& claim, protocol::Ending ending) {
    Answer<store::WriteResult> answer;
    rig_.store().settle(claim, std::move(ending), soon(), answer.callback());
    EXPECT_EQ(answer.get().outcome, store::WriteOutcome::Done);
  }
  store::ClaimRef unknown(const std::string& key) {
    const store::ClaimRef claim = mustClaim(identity(key));
    settle(claim, protocol::Unknown{"upstream_reset", {}});
    return claim;
  }
  void completeLate(const store::ClaimRef& claim) {
    protocol::Completed completed;
    completed.status = 200;
    completed.response_schema = 1;
    completed.response = "late";
    settle(claim, completed);
  }

  // `more` is added to the conninfo.
  std::unique_ptr<postgres::PostgresOperatorStore> open(const std::string& more = "") {
    auto opened = postgres::PostgresOperatorStore::open({.conninfo = rig_.conninfo() + more});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  static store::OperatorChange notRun(const store::ClaimRef& seen) {
    return {.seen = seen, .action = store::NotRun{}, .actor = "alice", .reason = "checked"};
  }
  int64_t number(const std::string& sql) { return std::stoll(rig_.sql(sql)[0][0]); }
  int64_t stateOf(const std::string& key) {
    return number(fmt::format("SELECT state FROM idempotency.record WHERE key = '{}'", key));
  }
  int64_t audited() { return number("SELECT count(*) FROM idempotency.audit"); }
};

// --- Lost connections

// Begins a change that waits for the record's lock, so that the test can choose what happens to the
// messages after it.
class LostCommitTest : public PostgresOperatorTest {
protected:
  template <typename Harm>
  absl::StatusOr<store::ChangeResult> changeWith(const store::ClaimRef& seen, const Harm& harm) {
    const auto store = open(" port=1");
    const postgres::PqConnection blocker(PQconnectdb(rig_.conninfo().c_str()));
    postgres::PqResult(PQexec(blocker.get(), "BEGIN; SELECT FROM idempotency.record FOR UPDATE"));
    absl::StatusOr<store::ChangeResult> result = store::ChangeResult{};
    std::thread changing([&] { result = store->change(notRun(seen)); });
    EXPECT_TRUE(eventually([&] {
      return number(
                 "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                 " AND datname = current_database()") == 1;
    }));
    harm();
    postgres::PqResult(PQexec(blocker.get(), "COMMIT"));
    changing.join();
    return result;
  }
};

TEST_F(LostCommitTest, CommitWhoseAnswerWasLostIsFoundAgain) {
  const store::ClaimRef seen = unknown("lost");
  rig_.stop();
  const auto result = changeWith(seen, [&] { rig_.proxy().loseNextAnswer(); });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, store::ChangeOutcome::Done);
  EXPECT_EQ(stateOf("lost"), 3);
  EXPECT_EQ(audited(), 1);
}

TEST_F(LostCommitTest, ChangeThatNeverArrivedIsReportedAsNotMade) {
  const store::ClaimRef seen = unknown("lost");
  rig_.stop();
  const auto result = changeWith(seen, [&] { rig_.proxy().loseNextRequest(); });
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("nothing was changed"));
  EXPECT_EQ(stateOf("lost"), 4);
  EXPECT_EQ(audited(), 0);
}

TEST_F(PostgresOperatorTest, SessionThatTheServerHasEndedIsOpenedAgain) {
  const store::ClaimRef seen = unknown("kept");
  const auto store = open();
  const std::string sessions =
      " FROM pg_stat_activity WHERE application_name = 'envoy-idempotency operator'"
      " AND datname = current_database()";
  const auto end = [&] {
    rig_.sql("SELECT pg_terminate_backend(pid)" + sessions);
    EXPECT_TRUE(eventually([&] { return number("SELECT count(*)" + sessions) == 0; }));
  };
  end();
  const auto found = store->find(seen.identity);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->has_value());
  end();
  const auto due = store->takeDue({.names = {}, .all_but = true}, 1min, 10);
  ASSERT_TRUE(due.ok()) << due.status();
  EXPECT_EQ(due->size(), 1U);
  end();
  const auto changed = store->change(notRun(seen));
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->outcome, store::ChangeOutcome::Done);
}

// --- Locks

TEST_F(PostgresOperatorTest, OperatorDoesNotWaitLongForALockedRecord) {
  const store::ClaimRef seen = unknown("locked");
  const auto store = open();
  {
    const postgres::PqConnection upstream(PQconnectdb(rig_.conninfo().c_str()));
    postgres::PqResult(PQexec(upstream.get(), "BEGIN; SELECT FROM idempotency.record FOR UPDATE"));
    const auto began = std::chrono::steady_clock::now();
    const auto refused = store->change(notRun(seen));
    EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
    EXPECT_TRUE(absl::IsAborted(refused.status())) << refused.status();
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("locked"));
    // The reconciler passes it over.
    const auto due = store->takeDue({.names = {}, .all_but = true}, 1min, 10);
    ASSERT_TRUE(due.ok()) << due.status();
    EXPECT_TRUE(due->empty());
  }
  EXPECT_TRUE(eventually([&] {
    const auto changed = store->change(notRun(seen));
    return changed.ok() && changed->outcome == store::ChangeOutcome::Done;
  }));
  EXPECT_EQ(audited(), 1);
}

// --- Roles and schemas

TEST_F(PostgresOperatorTest, RoleOfOperatorsMayDoAllThatOperatorsDo) {
  const store::ClaimRef seen = unknown("one");
  const store::ClaimRef other = unknown("two");
  rig_.sql("CREATE ROLE oncall LOGIN IN ROLE idempotency_operator");
  {
    const auto store = open(" user=oncall");
    EXPECT_TRUE(store->list({}, {}, 10).ok());
    EXPECT_TRUE(store->find(seen.identity).ok());
    EXPECT_TRUE(store->audit({}, {}, 10).ok());
    EXPECT_TRUE(store->summary().ok());
    EXPECT_EQ(store->takeDue({.names = {}, .all_but = true}, 1min, 10)->size(), 2U);
    store::OperatorChange change = notRun(seen);
    for (const store::OperatorAction& action :
         {store::OperatorAction(store::AskAgain{}), store::OperatorAction(store::GiveUp{}),
          store::OperatorAction(protocol::Completed{.status = 200, .response = "r", .ttl = {}}),
          store::OperatorAction(store::Bust{})}) {
      change.action = action;
      const auto changed = store->change(change);
      ASSERT_TRUE(changed.ok()) << changed.status();
      EXPECT_EQ(changed->outcome, store::ChangeOutcome::Done);
    }
    const auto purged = store->purge({.tenant = "tenant", .actor = "alice", .reason = "r"}, 10);
    ASSERT_TRUE(purged.ok()) << purged.status();
    EXPECT_EQ(purged->records, 1U);
    for (const char* const forbidden :
         {"UPDATE idempotency.audit SET actor = 'bob'", "DELETE FROM idempotency.audit",
          "INSERT INTO idempotency.unsettled_change (records, dead_letters, operation)"
          " VALUES (1, 1, 'x')",
          "UPDATE idempotency.unsettled_total SET records = 0"}) {
      EXPECT_THROW(query(rig_.conninfo() + " user=oncall", forbidden), std::runtime_error)
          << forbidden;
    }
  }
  rig_.sql("DROP ROLE oncall");
}

// The module's own role: it asks upstreams, but does not delete for operators.
TEST_F(PostgresOperatorTest, RoleOfTheFilterMayReconcile) {
  const store::ClaimRef seen = unknown("one");
  rig_.sql("CREATE ROLE gateway2 LOGIN IN ROLE idempotency_filter");
  {
    const auto store = open(" user=gateway2");
    EXPECT_TRUE(store->summary().ok());
    EXPECT_EQ(store->takeDue({.names = {}, .all_but = true}, 1min, 10)->size(), 1U);
    store::OperatorChange change = notRun(seen);
    for (const store::OperatorAction& action :
         {store::OperatorAction(store::AskAgain{}), store::OperatorAction(store::GiveUp{}),
          store::OperatorAction(protocol::Completed{.status = 200, .response = "r", .ttl = {}})}) {
      change.action = action;
      const auto changed = store->change(change);
      ASSERT_TRUE(changed.ok()) << changed.status();
      EXPECT_EQ(changed->outcome, store::ChangeOutcome::Done);
    }
    const auto purged = store->purge({.tenant = "tenant", .actor = "alice", .reason = "r"}, 10);
    EXPECT_TRUE(absl::IsPermissionDenied(purged.status())) << purged.status();
  }
  rig_.sql("DROP ROLE gateway2");
}

TEST_F(PostgresOperatorTest, SchemaOfAnOlderBuildIsRefused) {
  rig_.sql(
      "CREATE TABLE saved AS SELECT * FROM idempotency.schema_version;"
      "DELETE FROM idempotency.schema_version WHERE version > 5");
  const auto opened = postgres::PostgresOperatorStore::open({.conninfo = rig_.conninfo()});
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("run idempotencyctl migrate"));
  rig_.sql(
      "INSERT INTO idempotency.schema_version SELECT * FROM saved WHERE version > 5;"
      "DROP TABLE saved");
}

TEST_F(PostgresOperatorTest, BrokenConninfoIsNotQuoted) {
  const auto opened = postgres::PostgresOperatorStore::open({.conninfo = "pasword=hush-hush"});
  EXPECT_TRUE(absl::IsInvalidArgument(opened.status()));
  EXPECT_THAT(opened.status().ToString(), ::testing::Not(HasSubstr("hush")));
}

// --- The table of unknown records

TEST_F(PostgresOperatorTest, LateCompletionLeavesARowThatNobodySees) {
  const store::ClaimRef late = unknown("late");
  const store::ClaimRef open_one = unknown("open");
  completeLate(late);
  ASSERT_EQ(number("SELECT count(*) FROM idempotency.unsettled"), 2)
      << "a completion writes nothing but the record and its response";
  const auto store = open();
  store::RecordFilter filter;
  filter.states = {protocol::RecordState::Unknown};
  const auto listed = store->list(filter, {}, 10);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->records.size(), 1U);
  EXPECT_EQ(listed->records.front().identity, open_one.identity);
  const auto due = store->takeDue({.names = {}, .all_but = true}, 1min, 10);
  ASSERT_TRUE(due.ok()) << due.status();
  EXPECT_EQ(due->size(), 1U);
  ASSERT_TRUE(store->summary().ok());
  EXPECT_EQ(number("SELECT count(*) FROM idempotency.unsettled"), 1);
}

TEST_F(PostgresOperatorTest, ReaperTidiesWithoutAnOperator) {
  completeLate(unknown("late"));
  Answer<store::MaintenanceResult> reaped;
  rig_.maintenance().reap(10, false, soon(), reaped.callback());
  ASSERT_TRUE(reaped.get().ok) << reaped.get().reason;
  EXPECT_EQ(number("SELECT count(*) FROM idempotency.unsettled"), 0);
  EXPECT_EQ(number("SELECT count(*) FROM idempotency.unsettled_change"), 0);
}

TEST_F(PostgresOperatorTest, TidyingWalksAlongTheTableInSteps) {
  for (int i = 10; i < 20; ++i) {
    const store::ClaimRef claim = unknown(std::to_string(i));
    if (i % 2 == 0) {
      completeLate(claim);
    }
  }
  int64_t deleted = 0;
  for (const int64_t expected : {2, 1, 2, 0}) {
    const int64_t step = number("SELECT idempotency.tidy_unsettled(3)");
    EXPECT_EQ(step, expected) << "after " << deleted;
    deleted += step;
  }
  EXPECT_EQ(deleted, 5);
  completeLate({identity("11"), number("SELECT attempt FROM idempotency.record WHERE key = '11'")});
  EXPECT_EQ(number("SELECT idempotency.tidy_unsettled(3)"), 1) << "from the beginning again";
}

// Many sessions write at the same time; none waits for another one's count.
TEST_F(PostgresOperatorTest, CountsAreThoseOfTheTableWhoeverWrites) {
  std::vector<std::thread> writers;
  std::atomic<bool> tidying{true};
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([this, writer] {
      const std::string operation = fmt::format("o{}", writer % 2);
      for (int i = 0; i < 30; ++i) {
        query(rig_.conninfo(),
              fmt::format("INSERT INTO idempotency.unsettled (tenant, operation, key, attempt,"
                          " since, dead_letter) VALUES ('t', '{0}', '{1}', {2}, now(), {3});"
                          "UPDATE idempotency.unsettled SET dead_letter = NOT dead_letter"
                          " WHERE key = '{1}' AND {2} % 3 = 0;"
                          "DELETE FROM idempotency.unsettled WHERE key = '{1}' AND {2} % 5 = 0",
                          operation, writer * 1000 + i, i, i % 2 == 0));
      }
    });
  }
  std::thread tidy([&] {
    while (tidying) {
      // Finds no record for these rows: its own deletions are counted as well.
      query(rig_.conninfo(), "SELECT idempotency.tidy_unsettled(7)");
    }
  });
  for (std::thread& writer : writers) {
    writer.join();
  }
  tidying = false;
  tidy.join();
  EXPECT_EQ(rig_.sql("SELECT operation, sum(records), sum(dead_letters) FROM"
                     " (SELECT operation, records, dead_letters FROM idempotency.unsettled_total"
                     "  UNION ALL SELECT operation, records, dead_letters"
                     "  FROM idempotency.unsettled_change) c"
                     " GROUP BY 1 HAVING sum(records) <> 0 ORDER BY 1"),
            rig_.sql("SELECT operation, count(*), count(*) FILTER (WHERE dead_letter)"
                     " FROM idempotency.unsettled GROUP BY 1 ORDER BY 1"));
}

// A module of the previous version, or an operator's own SQL.
TEST_F(PostgresOperatorTest, SweeperFindsUnknownRecordsThatAreNotInTheTable) {
  unknown("old");
  rig_.sql("DELETE FROM idempotency.unsettled");
  rig_.passTime(25h);
  Answer<store::MaintenanceResult> swept;
  rig_.maintenance().sweep(10, 1h, soon(), swept.callback());
  ASSERT_TRUE(swept.get().ok) << swept.get().reason;
  const auto due = open()->takeDue({.names = {}, .all_but = true}, 1min, 10);
  ASSERT_TRUE(due.ok()) << due.status();
  EXPECT_EQ(due->size(), 1U);
}

// Whatever can be claimed can become unknown: no index here needs more room than that of records.
TEST_F(PostgresOperatorTest, LongestOperationCanBeUnknown) {
  std::string operation;
  for (uint32_t i = 0, random = 1; i < 2720; ++i) {
    random = random * 1664525 + 1013904223;
    operation.push_back(static_cast<char>(random >> 24));  // Does not compress.
  }
  store::ClaimRequest request;
  request.fingerprint = std::string(33, 'f');
  request.attempt = store::newAttempt();
  const auto isClaimed = [&] {
    request.identity = {"", operation, "k"};
    Answer<store::ClaimResult> answer;
    rig_.store().claim(request, soon(), answer.callback());
    return std::holds_alternative<store::Claimed>(answer.get());
  };
  while (!isClaimed()) {
    ASSERT_FALSE(operation.empty());
    operation.pop_back();
  }
  EXPECT_GT(operation.size(), 2000U);
  settle({request.identity, request.attempt}, protocol::Unknown{"upstream_reset", {}});
  const auto store = open();
  const auto due = store->takeDue({.names = {operation}, .all_but = false}, 1min, 10);
  ASSERT_TRUE(due.ok()) << due.status();
  EXPECT_EQ(due->size(), 1U);
  const auto summary = store->summary();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->unsettled.front().operation, operation);
}

// --- What people read

TEST_F(PostgresOperatorTest, KeyHashInSqlIsTheOneOfTheAccessLog) {
  const protocol::Identity identities[] = {
      {"tenant", "operation", "key"},
      {"", "", "k"},
      {std::string(70, 't'), "operation", std::string(300, 'k')},
      {"t\xff", std::string("o\0p", 3), "k\x01"},
      {std::string(60, 't'), "ab", "key"},
  };
  for (const protocol::Identity& identity : identities) {
    EXPECT_EQ(
        rig_.sql(fmt::format("SELECT idempotency.key_hash({}, {}, {})", literal(identity.tenant),
                             literal(identity.operation), literal(identity.key)))[0][0],
        protocol::keyHash(identity));
  }
}

TEST_F(PostgresOperatorTest, ViewShowsNamesInsteadOfNumbersAndBytes) {
  const protocol::Identity odd{"t\\\xff", "o'p\xc3\xa9", "k\xe2\x82\xac"};
  const store::ClaimRef claim = mustClaim(odd);
  settle(claim, protocol::Unknown{"upstream_reset", 1h});
  EXPECT_EQ(
      rig_.sql("SELECT tenant, operation, key, key_hash, state, attempt, last_error,"
               " unknown_since <= now(), next_try > now(), tries, dead_letter, recovery_point,"
               " on_lease_expired, tombstone FROM idempotency.records"
               " WHERE unknown_since IS NOT NULL"),
      (TextRows{{"t\\\\\\377", "o'p\xc3\xa9", "k\xe2\x82\xac", protocol::keyHash(odd), "unknown",
                 std::to_string(claim.attempt), "upstream_reset", "t", "t", "0", "f", "started",
                 "unknown", "NULL"}}));
  EXPECT_EQ(rig_.sql(fmt::format("SELECT decode(tenant, 'escape') = {},"
                                 " decode(operation, 'escape') = {} FROM idempotency.records",
                                 literal(odd.tenant), literal(odd.operation))),
            (TextRows{{"t", "t"}}));
  completeLate(claim);
  EXPECT_EQ(rig_.sql("SELECT state, status, tombstone, unknown_since FROM idempotency.records"),
            (TextRows{{"completed", "200", "none", "NULL"}}));
}

TEST_F(PostgresOperatorTest, UnknownRecordsAreFoundByTheViewWithoutReadingAllRecords) {
  rig_.sql(
      "INSERT INTO idempotency.record (tenant, operation, key, attempt, state, fingerprint,"
      " lease_until, expires_at, reap_at, claimed_at, created_at)"
      " SELECT 't', 'o', i::text::bytea, i, 2, 'f', now(), now(), now(), now(), now()"
      " FROM generate_series(1, 20000) i");
  unknown("one");
  rig_.sql("ANALYZE idempotency.record; ANALYZE idempotency.unsettled");
  std::string plan;
  for (const auto& row : rig_.sql("EXPLAIN SELECT * FROM idempotency.records"
                                  " WHERE unknown_since IS NOT NULL ORDER BY unknown_since")) {
    plan += row[0] + "\n";
  }
  EXPECT_THAT(plan, ::testing::Not(HasSubstr("Seq Scan on record"))) << plan;
  EXPECT_THAT(plan, HasSubstr("record_pkey")) << plan;
}

}  // namespace
}  // namespace idempotency::test
