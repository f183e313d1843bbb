#include "source/store/sqlite/schema.h"

#include <sys/stat.h>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "source/store/sqlite/database.h"
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
  EXPECT_EQ(database->askNumber("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name "
                                "IN ('record', 'response', 'tenant_use', 'audit', 'leader')"),
            5);
  EXPECT_FALSE(database->inTransaction());
}

TEST_F(SchemaTest, TablesAreStrict) {
  const auto database = open();
  ASSERT_TRUE(migrate(*database).ok());
  EXPECT_EQ(database->askNumber("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND "
                                "name NOT LIKE 'sqlite_%' AND NOT strict"),
            0);
  EXPECT_FALSE(database->run("INSERT INTO leader VALUES (1, 'me', 'soon')"));
}

TEST_F(SchemaTest, SecondRunChangesNothing) {
  ASSERT_TRUE(migrate(*open()).ok());
  const auto database = open();
  ASSERT_TRUE(database->run("INSERT INTO leader VALUES (1, 'me', 5)"));
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
