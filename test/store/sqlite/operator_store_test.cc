// An operator's connection to a store's file: what the contract cannot see.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "gtest/gtest.h"
#include <sqlite3.h>

#include "fmt/format.h"
#include "source/protocol/key_hash.h"
#include "source/store/sqlite/schema.h"
#include "source/store/sqlite/sqlite_operator_store.h"
#include "sql/sqlite/migrations.h"
#include "test/store/sqlite/sqlite_rig.h"
#include "test/store/sqlite/test_vfs.h"
#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using sqlite::Database;
using sqlite::openOperatorStore;

std::string contentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool mentions(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// --- What is refused when a file is opened

class OperatorFileTest : public ::testing::Test {
protected:
  OperatorFileTest() {
    // Before SQLite is used for the first time, or it does not stand under later tests.
    test_vfs::install();
  }
  absl::Status open(std::chrono::milliseconds timeout = LongTime) const {
    return openOperatorStore(path_, timeout).status();
  }
  std::unique_ptr<Database> make() const {
    auto database = Database::open(path_, true);
    EXPECT_TRUE(database.ok()) << database.status();
    return *std::move(database);
  }
  void makeOther(const std::string& sql) const {
    const auto database = make();
    ASSERT_TRUE(database->run(sql)) << database->message();
  }
  // Opening it fails, and leaves the bytes as they are.
  void expectRefused(const std::string& reason) const {
    const std::string before = contentOf(path_);
    const absl::Status status = open();
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(mentions(status, reason)) << status;
    EXPECT_TRUE(mentions(status, path_)) << status;
    EXPECT_EQ(contentOf(path_), before);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/records.db";
};

TEST_F(OperatorFileTest, MissingFileIsNotMade) {
  const absl::Status status = open();
  EXPECT_TRUE(mentions(status, "cannot open " + path_ + ": No such file")) << status;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(OperatorFileTest, EmptyPathIsRefused) {
  EXPECT_EQ(openOperatorStore("", 1s).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OperatorFileTest, FileOfAnotherApplicationIsLeftAlone) {
  makeOther("CREATE TABLE theirs (a); PRAGMA user_version = 1");
  expectRefused("another application");
  makeOther(fmt::format("PRAGMA user_version = {}", sqlite::knownSchemaVersion()));
  expectRefused("another application");
}

TEST_F(OperatorFileTest, FileThatIsNoDatabaseIsLeftAlone) {
  std::ofstream(path_) << std::string(10'000, 'x');
  expectRefused("not a database");
}

TEST_F(OperatorFileTest, EmptyFileGetsNoTables) {
  std::ofstream(path_).flush();
  expectRefused("version 0, older than");
}

TEST_F(OperatorFileTest, OlderSchemaIsNotBroughtForward) {
  ASSERT_TRUE(sqlite::migrate(*make(), sqliteMigrations().first(3)).ok());
  expectRefused("version 3, older than");
}

TEST_F(OperatorFileTest, NewerSchemaIsLeftAlone) {
  ASSERT_TRUE(sqlite::migrate(*make()).ok());
  makeOther("PRAGMA user_version = 1000");
  expectRefused("use a newer build");
}

TEST_F(OperatorFileTest, PathMayBeRelative) {
  ASSERT_TRUE(sqlite::migrate(*make()).ok());
  const std::filesystem::path relative = std::filesystem::relative(path_);
  ASSERT_TRUE(relative.is_relative());
  const absl::Status status = openOperatorStore(relative.string(), LongTime).status();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(OperatorFileTest, FileOfAStoppedStoreIsUsedAndLeftAlone) {
  ASSERT_TRUE(sqlite::migrate(*make()).ok());
  const auto opened = openOperatorStore(path_, LongTime);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE((*opened)->list({}, std::nullopt, 10).ok());
}

// --- Beside a running store

class SqliteOperatorTest : public ::testing::Test {
protected:
  std::unique_ptr<store::OperatorStore> open(std::chrono::milliseconds timeout = LongTime) {
    auto opened = openOperatorStore(rig_.path(), timeout);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }

  store::ClaimRef claim(const protocol::Identity& identity, std::chrono::milliseconds lease = 1min,
                        std::optional<store::ReclaimFrom> from = {}) {
    store::ClaimRequest request;
    request.identity = identity;
    request.fingerprint = "fingerprint";
    request.attempt = store::newAttempt();
    request.lease = lease;
    request.from = from;
    Answer<store::ClaimResult> answer;
    rig_.store().claim(request, soon(), answer.callback());
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
    return {identity, request.attempt};
  }
  store::ClaimRef claim(const std::string& key) {
    return claim({.tenant = "tenant", .operation = "operation", .key = key});
  }
  store::WriteOutcome settle(const store::ClaimRef& claim, protocol::Ending ending) {
    Answer<store::WriteResult> answer;
    rig_.store().settle(claim, std::move(ending), soon(), answer.callback());
    return answer.get().outcome;
  }
  store::ClaimRef unknown(const std::string& key) {
    store::ClaimRef ref = claim(key);
    EXPECT_EQ(settle(ref, protocol::Unknown{.error = "timeout", .reconcile_after = {}}),
              store::WriteOutcome::Done);
    return ref;
  }
  static protocol::Completed completion() {
    protocol::Completed ending;
    ending.status = 201;
    ending.response = "response";
    return ending;
  }
  void lead() {
    Answer<store::Leadership> answer;
    rig_.store().lead("leader", 1min, soon(), answer.callback());
    EXPECT_TRUE(answer.get().ours);
  }
  static absl::StatusOr<store::ChangeResult> change(store::OperatorStore& by,
                                                    const store::ClaimRef& seen,
                                                    store::OperatorAction action) {
    return by.change({.seen = seen,
                      .action = std::move(action),
                      .actor = "alice",
                      .reason = "asked the bank",
                      .dry_run = false});
  }
  static store::ChangeOutcome mustChange(store::OperatorStore& by, const store::ClaimRef& seen,
                                         store::OperatorAction action) {
    const auto result = change(by, seen, std::move(action));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->outcome : store::ChangeOutcome::Absent;
  }
  int64_t count(const std::string& table) {
    return rig_.askNumber("SELECT count(*) FROM " + table);
  }

  SqliteRig rig_;
};

TEST_F(SqliteOperatorTest, LockThatIsNotGivenBackIsAnErrorThatSaysSo) {
  const store::ClaimRef ref = unknown("locked");
  const auto by = open(50ms);
  rig_.block();
  const absl::Status status = change(*by, ref, store::NotRun{}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(mentions(status, "another process held the lock for 50 ms")) << status;
  EXPECT_TRUE(mentions(status, "nothing was changed")) << status;
  // Who looks needs no lock.
  const auto found = by->find(ref.identity);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->value().record.state, protocol::RecordState::Unknown);
  rig_.unblock();
  EXPECT_EQ(mustChange(*open(), ref, store::NotRun{}), store::ChangeOutcome::Done);
}

TEST_F(SqliteOperatorTest, CommitThatMayBeLostIsReportedAsSuch) {
  const store::ClaimRef ref = unknown("lost");
  const auto by = open();
  rig_.loseNextAnswer();
  const absl::Status status = change(*by, ref, store::NotRun{}).status();
  EXPECT_TRUE(mentions(status, "may have been made")) << status;
  // To repeat it is safe: it names the attempt.
  const store::ChangeOutcome again = mustChange(*by, ref, store::NotRun{});
  EXPECT_TRUE(again == store::ChangeOutcome::Done || again == store::ChangeOutcome::Refused);
  EXPECT_EQ(by->find(ref.identity)->value().record.state, protocol::RecordState::FailedRetryable);
}

TEST_F(SqliteOperatorTest, FullDiskChangesNothing) {
  const store::ClaimRef ref = unknown("full");
  const auto by = open();
  test_vfs::setFault([](test_vfs::Call call, std::string_view file) {
    return call == test_vfs::Call::Write && file == "records.db-wal" ? SQLITE_FULL : SQLITE_OK;
  });
  const absl::Status status = change(*by, ref, store::NotRun{}).status();
  EXPECT_TRUE(mentions(status, "nothing was changed")) << status;
  test_vfs::setFault(nullptr);
  EXPECT_EQ(by->find(ref.identity)->value().record.state, protocol::RecordState::Unknown);
  EXPECT_EQ(mustChange(*by, ref, store::NotRun{}), store::ChangeOutcome::Done);
}

// Acknowledged means on disk, as with the store.
TEST(SqliteOperatorDurabilityTest, ChangeSurvivesAPowerCut) {
  SqliteRig rig;
  rig.stop();
  test_vfs::trackDurable();
  rig.start();
  store::ClaimRequest request;
  request.identity = {.tenant = "tenant", .operation = "operation", .key = "key"};
  request.attempt = store::newAttempt();
  Answer<store::ClaimResult> claimed;
  rig.store().claim(request, soon(), claimed.callback());
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claimed.get()));
  const store::ClaimRef ref{request.identity, request.attempt};
  Answer<store::WriteResult> settled;
  rig.store().settle(ref, protocol::Unknown{}, soon(), settled.callback());
  ASSERT_EQ(settled.get().outcome, store::WriteOutcome::Done);
  const auto result = rig.openOperator()->change({.seen = ref,
                                                  .action = store::NotRun{},
                                                  .actor = "alice",
                                                  .reason = "asked the bank",
                                                  .dry_run = false});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->outcome, store::ChangeOutcome::Done);

  const TemporaryFolder after;
  for (const auto& [name, content] : test_vfs::durableFiles()) {
    std::ofstream(after.path() + "/" + name, std::ios::binary) << content;
  }
  test_vfs::reset();
  const auto opened = openOperatorStore(after.path() + "/records.db", LongTime);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto found = (*opened)->find(ref.identity);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->record.state, protocol::RecordState::FailedRetryable);
  const auto audit = (*opened)->audit({}, std::nullopt, 10);
  ASSERT_TRUE(audit.ok()) << audit.status();
  EXPECT_EQ(audit->entries.size(), 1U);
}

TEST_F(SqliteOperatorTest, FileThatIsReplacedIsNoticed) {
  const store::ClaimRef ref = unknown("moved");
  const auto by = open();
  rig_.stop();
  std::filesystem::rename(rig_.path(), rig_.path() + ".old");
  const absl::Status status = change(*by, ref, store::NotRun{}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(mentions(status, "nothing was changed")) << status;
  EXPECT_FALSE(std::filesystem::exists(rig_.path()));
  std::filesystem::rename(rig_.path() + ".old", rig_.path());
  rig_.start();
  EXPECT_TRUE(eventually([&] { return change(*by, ref, store::NotRun{}).ok(); }));
}

TEST_F(SqliteOperatorTest, WorkThatTakesTooLongIsBrokenOff) {
  rig_.run(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
      "INSERT INTO record (tenant, operation, key, fingerprint, state, attempt, recovery_point, "
      "lease_until, on_lease_expired, created_at, expires_at) "
      "SELECT x'01', x'02', CAST(i AS BLOB), x'', 2, i, 'started', i, 0, i, i FROM n");
  const auto by = open(1ms);
  store::RecordFilter filter;
  filter.key_hash = "0123456789abcdef";
  const absl::Status status = by->list(filter, std::nullopt, 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(mentions(status, "not done within 1 ms")) << status;
}

// --- Time

// Set ahead by mistake, the clock shows a lease as over whose request is running.
TEST_F(SqliteOperatorTest, ClockThatIsSetAheadEndsNoLease) {
  lead();
  const store::ClaimRef running = claim("running");
  const auto before = open();
  ASSERT_TRUE(before->summary().ok());
  rig_.setClockAhead(1h);
  const auto after = open();
  for (const auto* by : {&before, &after}) {
    EXPECT_EQ(mustChange(**by, running, store::NotRun{}), store::ChangeOutcome::Refused);
    EXPECT_EQ(mustChange(**by, running, completion()), store::ChangeOutcome::Refused);
    const auto purged = (*by)->purge({.tenant = "tenant", .actor = "alice", .reason = {}}, 10);
    ASSERT_TRUE(purged.ok()) << purged.status();
    EXPECT_EQ(purged->records, 0U);
    EXPECT_EQ(purged->running, 1U);
  }
  EXPECT_EQ(settle(running, completion()), store::WriteOutcome::Done);
}

// The result must not be past its life for a store that believes the other time.
TEST_F(SqliteOperatorTest, ResolvedRecordLivesItsFullTimeWhicheverClockIsRight) {
  const store::ClaimRef ref = unknown("paid");
  const auto by = open();
  ASSERT_TRUE(by->summary().ok());
  rig_.setClockAhead(48h);
  ASSERT_EQ(mustChange(*by, ref, completion()), store::ChangeOutcome::Done);
  const auto fresh = openOperatorStore(rig_.path(), LongTime);
  ASSERT_TRUE(fresh.ok());
  const auto found = (*fresh)->find(ref.identity);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_FALSE((*found)->record.past_life);
}

// --- Bookkeeping

TEST_F(SqliteOperatorTest, BustedResponseIsDeletedToo) {
  const store::ClaimRef ref = claim("busted");
  ASSERT_EQ(settle(ref, completion()), store::WriteOutcome::Done);
  EXPECT_EQ(count("response"), 1);
  ASSERT_EQ(mustChange(*open(), ref, store::Bust{}), store::ChangeOutcome::Done);
  EXPECT_EQ(count("response"), 0);
  EXPECT_EQ(count("tenant_use"), 0);
}

TEST_F(SqliteOperatorTest, PurgedTenantIsNamedNowhere) {
  const store::ClaimRef completed = claim("completed");
  ASSERT_EQ(settle(completed, completion()), store::WriteOutcome::Done);
  const auto by = open();
  ASSERT_EQ(mustChange(*by, unknown("asked"), store::AskAgain{}), store::ChangeOutcome::Done);
  const auto purged = by->purge({.tenant = "tenant", .actor = "alice", .reason = "left"}, 100);
  ASSERT_TRUE(purged.ok()) << purged.status();
  EXPECT_EQ(purged->records, 2U);
  for (const char* const table : {"record", "response", "tenant_use"}) {
    EXPECT_EQ(count(table), 0) << table;
  }
  EXPECT_EQ(rig_.askNumber("SELECT count(*) FROM audit WHERE tenant = CAST('tenant' AS BLOB) OR "
                           "key = CAST('asked' AS BLOB) OR detail LIKE '%bank%'"),
            0);
  // Who knows the name finds what was done: printf tenant | sha256sum.
  const auto page =
      by->audit({.tenant = "sha256:e9da86d351cf9a76", .operation = {}, .key = {}, .attempt = {}},
                std::nullopt, 10);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->entries.size(), 2U);
}

// Adds up whatever the store and operators do, in any order.
TEST_F(SqliteOperatorTest, CountsAreExactlyTheNumbersOfRecords) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return std::uniform_int_distribution(0, limit - 1)(random); };
  // Both see the time that passes.
  const auto by = rig_.openOperator();
  const std::vector<store::OperatorAction> actions = {
      completion(),
      store::NotRun{},
      store::Free{},
      store::Bust{},
      store::AskAgain{},
      store::GiveUp{},
      store::AskAgain{.after = 1h, .start_over = true}};
  std::vector<store::ClaimRef> claims;
  for (int step = 0; step < 400; ++step) {
    const int what = below(10);
    if (what < 3 || claims.empty()) {
      claims.push_back(claim({.tenant = std::to_string(below(2)),
                              .operation = std::to_string(below(3)),
                              .key = std::to_string(step)}));
    } else if (what < 5) {
      const std::vector<protocol::Ending> endings = {completion(), protocol::Unknown{},
                                                     protocol::Unknown{}, protocol::Failed{},
                                                     protocol::Released{}};
      settle(claims[below(static_cast<int>(claims.size()))], endings[below(5)]);
    } else if (what < 9) {
      mustChange(*by, claims[below(static_cast<int>(claims.size()))], actions[below(7)]);
    } else if (below(4) == 0) {
      rig_.passTime(10min);
      Answer<store::MaintenanceResult> swept;
      rig_.store().sweep(3, 1min, soon(), swept.callback());
      EXPECT_TRUE(swept.get().ok);
      if (below(8) == 0) {
        rig_.passTime(25h);
        Answer<store::MaintenanceResult> reaped;
        rig_.store().reap(5, below(2) == 0, soon(), reaped.callback());
        EXPECT_TRUE(reaped.get().ok);
      }
    } else if (below(10) == 0) {
      EXPECT_TRUE(by->purge({.tenant = "1", .actor = "alice", .reason = {}}, 5).ok());
    }
  }
  const std::string unsettled =
      "SELECT operation, count(*), sum(dead_letter) FROM record WHERE state = 4 GROUP BY operation";
  const std::string counted =
      "SELECT operation, records, dead_letters FROM unsettled_use "
      "WHERE records <> 0 OR dead_letters <> 0";
  EXPECT_EQ(count(fmt::format("({} EXCEPT {})", unsettled, counted)), 0);
  EXPECT_EQ(count(fmt::format("({} EXCEPT {})", counted, unsettled)), 0);
  const std::string records =
      "SELECT tenant, count(*) FROM record WHERE expired_at IS NULL GROUP BY tenant";
  const std::string use = "SELECT tenant, records FROM tenant_use WHERE records <> 0";
  EXPECT_EQ(count(fmt::format("({} EXCEPT {})", records, use)), 0);
  EXPECT_EQ(count(fmt::format("({} EXCEPT {})", use, records)), 0);
}

TEST_F(SqliteOperatorTest, SummaryOfManyRecordsTakesTheStoresCounts) {
  rig_.run(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
      "INSERT INTO record (tenant, operation, key, fingerprint, state, attempt, recovery_point, "
      "lease_until, on_lease_expired, created_at, expires_at, dead_letter, unknown_since) "
      "SELECT CAST(i % 7 AS BLOB), CAST('pay' AS BLOB), CAST(i AS BLOB), x'', 4, i, 'started', i, "
      "0, i, i, i % 2, i FROM n; "
      "INSERT INTO unsettled_use VALUES (CAST('pay' AS BLOB), 20000, 10000)");
  const auto summary = open()->summary();
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(summary->unsettled.size(), 1U);
  EXPECT_EQ(summary->unsettled[0].records, 20'000U);
  EXPECT_EQ(summary->unsettled[0].dead_letters, 10'000U);
  EXPECT_EQ(summary->tenants.size(), 7U);
  EXPECT_FALSE(summary->tenants_complete);
}

// An older build that still has the file open, and a person with a shell, know only the columns of
// version 3.
TEST_F(SqliteOperatorTest, WhatOlderBuildsWriteIsCountedAndDue) {
  const store::ClaimRef ref = claim("old");
  const auto by = open();
  const auto unsettled = [&]() -> uint64_t {
    const auto summary = by->summary();
    EXPECT_TRUE(summary.ok()) << summary.status();
    return summary->unsettled.empty() ? 0 : summary->unsettled[0].records;
  };
  const std::string counted = "SELECT sum(records) FROM unsettled_use";
  rig_.run("UPDATE record SET state = 4, last_error = 'timeout', reconcile_after = NULL");
  EXPECT_EQ(unsettled(), 1U);
  EXPECT_EQ(rig_.askNumber(counted), 1);
  const auto due = by->takeDue({.names = {}, .all_but = true}, 1min, 10);
  ASSERT_TRUE(due.ok()) << due.status();
  ASSERT_EQ(due->size(), 1U);
  EXPECT_EQ(due->front().claim.attempt, ref.attempt);
  rig_.run("UPDATE record SET state = 3, last_error = 'operator', reconcile_after = NULL");
  EXPECT_EQ(unsettled(), 0U);
  EXPECT_EQ(rig_.askNumber(counted), 0);
}

}  // namespace
}  // namespace idempotency::test
