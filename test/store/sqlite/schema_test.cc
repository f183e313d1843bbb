#include "source/store/sqlite/schema.h"

#include <sys/stat.h>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "fmt/format.h"
#include "source/store/sqlite/database.h"
#include "sql/sqlite/migrations.h"
#include "test/store/sqlite/sqlite_rig.h"

namespace idempotency::sqlite {
namespace {

class SchemaTest : public ::testing::Test {
protected:
  std::unique_ptr<Database> open() const {
    auto database = Database::open(path_, true);
    EXPECT_TRUE(database.ok()) << database.status();
    (*database)->setPatience(
        [end = test::soon()] { return std::chrono::steady_clock::now() < end; });
    return *std::move(database);
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/schema.db";
};

constexpr EmbeddedText First{"0001_first.sql", "CREATE TABLE one (a INTEGER) STRICT;"};
constexpr EmbeddedText Second{"0002_second.sql",
                              "CREATE TABLE two (a INTEGER) STRICT; INSERT INTO two VALUES (7);"};
constexpr EmbeddedText Broken{"0002_broken.sql", "CREATE TABLE two (a INTEGER); SELECT nothing;"};

TEST_F(SchemaTest, NewFileGetsAllTables) {
  const auto database = open();
  ASSERT_TRUE(migrate(*database).ok());
  EXPECT_EQ(database->askNumber("PRAGMA user_version"), knownSchemaVersion());
  EXPECT_EQ(database->askNumber(
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name "
                "IN ('record', 'response', 'tenant_use', 'unsettled_use', 'audit', 'leader', "
                "'clock')"),
            7);
  EXPECT_FALSE(database->inTransaction());
}

TEST_F(SchemaTest, TablesAreStrict) {
  const auto database = open();
  ASSERT_TRUE(migrate(*database).ok());
  EXPECT_EQ(database->askNumber("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND "
                                "type = 'table' AND name NOT LIKE 'sqlite_%' AND NOT strict"),
            0);
  EXPECT_FALSE(database->run("INSERT INTO leader VALUES ('job', 'me', 'soon')"));
}

TEST_F(SchemaTest, SecondRunChangesNothing) {
  ASSERT_TRUE(migrate(*open()).ok());
  const auto database = open();
  ASSERT_TRUE(database->run("INSERT INTO leader VALUES ('job', 'me', 5)"));
  ASSERT_TRUE(migrate(*database).ok());
  EXPECT_EQ(database->askNumber("SELECT lease_until FROM leader"), 5);
}

TEST_F(SchemaTest, OlderFileIsBroughtForward) {
  ASSERT_TRUE(migrate(*open(), std::vector{First}).ok());
  const auto database = open();
  ASSERT_TRUE(database->run("INSERT INTO one VALUES (3)"));
  ASSERT_TRUE(migrate(*database, std::vector{First, Second}).ok());
  EXPECT_EQ(database->askNumber("SELECT a FROM one"), 3);
  EXPECT_EQ(database->askNumber("SELECT a FROM two"), 7);
  EXPECT_EQ(database->askNumber("PRAGMA user_version"), 2);
}

// Version 1 ended unknown records at the end of their life, and freed their keys.
TEST_F(SchemaTest, RecordsThatWereGivenUpAreUnknownAgain) {
  ASSERT_TRUE(migrate(*open(), sqliteMigrations().first(1)).ok());
  const auto database = open();
  const auto insert = [&](int id, int state, int status, int tombstone, const char* expired_at) {
    EXPECT_TRUE(database->run(fmt::format(
        "INSERT INTO record (id, tenant, operation, key, fingerprint, state, attempt, "
        "recovery_point, lease_until, on_lease_expired, created_at, expires_at, completed_at, "
        "expired_at, status, tombstone, last_error) VALUES ({0}, x'01', x'02', CAST({0} AS BLOB), "
        "x'', {1}, 7, 'started', 10, 0, 5, 20, 30, {4}, {2}, {3}, 'abandoned')",
        id, state, status, tombstone, expired_at)))
        << database->message();
  };
  insert(1, 2, 408, 4, "NULL");  // Given up.
  insert(2, 5, 408, 4, "40");    // Given up, then kept by soft expiry.
  insert(3, 2, 201, 0, "NULL");  // Completed.
  insert(4, 2, 201, 1, "NULL");  // Completed, too large.
  insert(5, 5, 201, 0, "40");    // Expired.
  insert(6, 2, 408, 0, "NULL");  // The upstream's own 408.
  ASSERT_TRUE(migrate(*database).ok());
  EXPECT_EQ(database->ask("SELECT group_concat(state) FROM (SELECT state FROM record ORDER BY id)"),
            "4,4,2,2,5,2");
  EXPECT_EQ(database->askNumber("SELECT count(*) FROM record WHERE id <= 2 AND status = 0 AND "
                                "tombstone = 0 AND completed_at IS NULL"),
            2);
  EXPECT_EQ(database->askNumber("SELECT count(*) FROM record WHERE id > 2 AND completed_at = 30"),
            4);
  EXPECT_EQ(database->askNumber("SELECT count(*) FROM record WHERE claimed_at = 5"), 6);
}

// Version 3 gave the columns the names that the PostgreSQL store uses.
TEST_F(SchemaTest, RenameKeepsResponsesAndTheLeader) {
  ASSERT_TRUE(migrate(*open(), sqliteMigrations().first(2)).ok());
  const auto database = open();
  ASSERT_TRUE(database->run("INSERT INTO response (id, attempt, bytes) VALUES (3, 7, x'0041')"));
  ASSERT_TRUE(database->run("INSERT INTO leader VALUES (1, 'me', 5)"));
  ASSERT_TRUE(migrate(*database).ok());
  EXPECT_EQ(database->ask("SELECT hex(body) FROM response WHERE id = 3 AND attempt = 7"), "0041");
  EXPECT_EQ(database->ask("SELECT name || ' ' || owner || ' ' || lease_until FROM leader"),
            "maintenance me 5");
}

TEST_F(SchemaTest, UnknownRecordsFromBeforeAreCounted) {
  ASSERT_TRUE(migrate(*open(), sqliteMigrations().first(3)).ok());
  const auto database = open();
  const auto insert = [&](int id, const char* operation, int state, int dead_letter) {
    EXPECT_TRUE(database->run(fmt::format(
        "INSERT INTO record (id, tenant, operation, key, fingerprint, state, attempt, "
        "recovery_point, lease_until, on_lease_expired, created_at, claimed_at, expires_at, "
        "dead_letter) VALUES ({0}, x'01', CAST('{1}' AS BLOB), CAST({0} AS BLOB), x'', {2}, 7, "
        "'started', 10, 0, 5, 6, 20, {3})",
        id, operation, state, dead_letter)))
        << database->message();
  };
  insert(1, "pay", 4, 0);
  insert(2, "pay", 4, 1);
  insert(3, "refund", 4, 0);
  insert(4, "refund", 2, 0);
  ASSERT_TRUE(migrate(*database).ok());
  EXPECT_EQ(database->ask("SELECT group_concat(operation || ' ' || records || ' ' || dead_letters) "
                          "FROM unsettled_use"),
            "pay 2 1,refund 1 0");
  EXPECT_EQ(database->askNumber("SELECT count(*) FROM record WHERE unknown_since = 6"), 3);
  EXPECT_EQ(database->askNumber("SELECT unknown_since IS NULL FROM record WHERE id = 4"), 1);
}

TEST_F(SchemaTest, ViewHasNamesInsteadOfNumbers) {
  const auto database = open();
  ASSERT_TRUE(migrate(*database).ok());
  ASSERT_TRUE(database->run(
      "INSERT INTO record (tenant, operation, key, fingerprint, state, attempt, recovery_point, "
      "lease_until, on_lease_expired, created_at, claimed_at, expires_at, unknown_since, "
      "dead_letter, "
      "last_error) VALUES (CAST('acme' AS BLOB), CAST('pay' AS BLOB), CAST('k-1' AS BLOB), x'', 4, "
      "7, 'started', 10, 0, 1000, 2000, 3000, 1700000000123, 1, 'timeout')"))
      << database->message();
  EXPECT_EQ(
      database->ask("SELECT tenant || ' ' || operation || ' ' || key || ' ' || state || ' ' || "
                    "attempt || ' ' || last_error || ' ' || dead_letter || ' ' || "
                    "claimed_at || ' ' || unknown_since FROM records"),
      "acme pay k-1 unknown 7 timeout 1 1970-01-01T00:00:02.000Z "
      "2023-11-14T22:13:20.123Z");
}

TEST_F(SchemaTest, BuildFromBeforeTheRenameIsRefused) {
  ASSERT_TRUE(migrate(*open()).ok());
  const absl::Status status = migrate(*open(), sqliteMigrations().first(2));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("use a newer build"), std::string::npos) << status;
}

TEST_F(SchemaTest, NewerFileIsRefusedAndLeftAlone) {
  ASSERT_TRUE(migrate(*open(), std::vector{First, Second}).ok());
  const auto database = open();
  const absl::Status status = migrate(*database, std::vector{First});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("version 2, newer than the 1"), std::string::npos)
      << status;
  EXPECT_EQ(database->askNumber("PRAGMA user_version"), 2);
  EXPECT_FALSE(database->inTransaction());
}

TEST_F(SchemaTest, BrokenMigrationLeavesNoTrace) {
  ASSERT_TRUE(migrate(*open(), std::vector{First}).ok());
  const auto database = open();
  const absl::Status status = migrate(*database, std::vector{First, Broken});
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("0002_broken.sql"), std::string::npos) << status;
  EXPECT_EQ(database->askNumber("SELECT count(*) FROM sqlite_schema WHERE name = 'two'"), 0);
  EXPECT_EQ(database->askNumber("PRAGMA user_version"), 1);
  EXPECT_TRUE(migrate(*database, std::vector{First, Second}).ok());
}

TEST_F(SchemaTest, FileOfAnotherApplicationIsRefusedAndLeftAlone) {
  ASSERT_TRUE(open()->run("CREATE TABLE theirs (a); PRAGMA user_version = 1"));
  const auto database = open();
  const absl::Status status = migrate(*database);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(database->askNumber("SELECT count(*) FROM sqlite_schema"), 1);
}

TEST_F(SchemaTest, EmptyFileOfAnotherApplicationIsRefused) {
  ASSERT_TRUE(open()->run("PRAGMA application_id = 77"));
  EXPECT_EQ(migrate(*open()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SchemaTest, SeveralAtOnceMakeTheTablesOnce) {
  ASSERT_TRUE(open()->run("PRAGMA journal_mode = WAL"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] {
      const absl::Status status = migrate(*open());
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(open()->askNumber("PRAGMA user_version"), knownSchemaVersion());
}

TEST_F(SchemaTest, FileIsForItsUserAlone) {
  open();
  struct stat found {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

}  // namespace
}  // namespace idempotency::sqlite
