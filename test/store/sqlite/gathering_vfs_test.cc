// The VFS that gathers the writes to the log: fewer of them, and nothing else changes.
#include "source/store/sqlite/gathering_vfs.h"

#include <atomic>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include <sqlite3.h>

#include "source/store/sqlite/database.h"
#include "test/store/sqlite/sqlite_rig.h"
#include "test/store/sqlite/test_vfs.h"

namespace idempotency::sqlite {
namespace {

namespace test_vfs = test::test_vfs;
using test_vfs::Call;

constexpr int PageBytes = 4096;
// Fits into what is gathered, so that the last of it is still there when something goes wrong.
constexpr int SomePages = 20;
// Does not fit.
constexpr int ManyPages = 200;

class GatheringVfsTest : public ::testing::Test {
protected:
  GatheringVfsTest() {
    test_vfs::install();
    test_vfs::reset();
    test_vfs::setFault([this](Call call, std::string_view file) {
      if (file != "log.db-wal") {
        return SQLITE_OK;
      }
      writes_ += call == Call::Write ? 1 : 0;
      syncs_ += call == Call::Sync ? 1 : 0;
      return call == Call::Write ? write_error_.load() : SQLITE_OK;
    });
    database_ = connect(/*create=*/true);
    run("PRAGMA journal_mode = WAL");
    run("PRAGMA synchronous = FULL");
    run("CREATE TABLE page (id INTEGER PRIMARY KEY, number INTEGER NOT NULL, bytes BLOB NOT NULL)");
    run("CREATE UNIQUE INDEX page_number ON page (number)");
  }
  ~GatheringVfsTest() override {
    database_.reset();
    test_vfs::reset();
  }

  std::unique_ptr<Database> connect(bool create = false) const {
    auto database = Database::open(path_, create);
    EXPECT_TRUE(database.ok()) << database.status();
    return *std::move(database);
  }
  void run(const std::string& sql) {
    EXPECT_TRUE(database_->run(sql)) << sql << ": " << database_->message();
  }
  // Each row fills a page.
  static std::string insertRows(int count, const std::string& offset = "0") {
    return "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
           std::to_string(count) + ") INSERT INTO page (number, bytes) SELECT i + " + offset +
           ", randomblob(" + std::to_string(PageBytes - 200) + ") FROM n";
  }
  // As another process sees it.
  void expectOthersSee(int rows) const {
    const std::unique_ptr<Database> other = connect();
    EXPECT_EQ(other->askNumber("SELECT count(*) FROM page"), rows);
    EXPECT_EQ(other->ask("PRAGMA integrity_check"), "ok");
    EXPECT_EQ(other->error(), SQLITE_OK) << other->message();
  }
  // From now on pages leave the cache in the middle of a transaction.
  void makeCacheSmall() {
    run("PRAGMA cache_size = 5");
    run("PRAGMA cache_spill = 5");
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/log.db";
  std::unique_ptr<Database> database_;
  std::atomic<int> writes_{0};
  std::atomic<int> syncs_{0};
  std::atomic<int> write_error_{SQLITE_OK};
};

TEST_F(GatheringVfsTest, CommitIsOneWriteAndOneSync) {
  writes_ = 0;
  syncs_ = 0;
  run(insertRows(SomePages));
  EXPECT_EQ(writes_, 1);
  EXPECT_EQ(syncs_, 1);
  expectOthersSee(SomePages);
}

TEST_F(GatheringVfsTest, NoMoreIsGatheredThanTheBound) {
  writes_ = 0;
  run(insertRows(ManyPages));
  EXPECT_GE(writes_, ManyPages * PageBytes / static_cast<int>(MaxGatheredBytes));
  EXPECT_LE(writes_, 10);
  expectOthersSee(ManyPages);
}

TEST_F(GatheringVfsTest, LogIsMovedIntoTheFileWhole) {
  run(insertRows(ManyPages));
  database_->moveLog();
  database_.reset();
  expectOthersSee(ManyPages);
}

TEST_F(GatheringVfsTest, TransactionReadsWhatItWroteToTheLog) {
  makeCacheSmall();
  run("BEGIN");
  run(insertRows(SomePages));
  EXPECT_EQ(database_->askNumber("SELECT sum(length(bytes)) FROM page"),
            SomePages * (PageBytes - 200));
  // Pages that are in the log are written there again, in their old places.
  run("UPDATE page SET bytes = zeroblob(" + std::to_string(PageBytes - 200) + ")");
  EXPECT_GT(writes_, 0) << "nothing has left the cache";
  EXPECT_EQ(database_->askNumber("SELECT count(*) FROM page WHERE bytes = zeroblob(" +
                                 std::to_string(PageBytes - 200) + ")"),
            SomePages);
  run("COMMIT");
  expectOthersSee(SomePages);
}

TEST_F(GatheringVfsTest, WhatIsRolledBackNeverOverwritesTheNextCommitOfAnother) {
  makeCacheSmall();
  // Then the rollback finds all it needs in the file and has no reason to look at the log.
  database_->moveLog();
  run("BEGIN");
  run(insertRows(SomePages));
  run("ROLLBACK");
  {
    const std::unique_ptr<Database> other = connect();
    EXPECT_TRUE(other->run(insertRows(SomePages, "1000"))) << other->message();
  }
  // Reads the log, and would first write what it still held back.
  EXPECT_EQ(database_->askNumber("SELECT min(number) FROM page"), 1001);
  run(insertRows(1));
  expectOthersSee(SomePages + 1);
}

TEST_F(GatheringVfsTest, LateWriteThatFailsIsTheErrorOfTheCommit) {
  for (const int error : {SQLITE_FULL, SQLITE_IOERR_WRITE}) {
    write_error_ = error;
    syncs_ = 0;
    EXPECT_FALSE(database_->run(insertRows(SomePages)));
    EXPECT_EQ(database_->error(), error);
    EXPECT_EQ(syncs_, 0) << "there is nothing to sync";
    database_->clearError();
    write_error_ = SQLITE_OK;
    expectOthersSee(0);
  }
  run(insertRows(SomePages));
  expectOthersSee(SomePages);
}

// A full disk ends a statement, not always its transaction. What was lost with it must not become
// part of a commit.
TEST_F(GatheringVfsTest, TransactionThatLostAWriteCannotBeCommitted) {
  makeCacheSmall();
  run("BEGIN");
  run(insertRows(SomePages));
  write_error_ = SQLITE_FULL;
  // Reads from the log, for which the log must be written first.
  EXPECT_FALSE(database_->run("UPDATE page SET number = -number WHERE id < 5"));
  EXPECT_EQ(database_->error(), SQLITE_FULL);
  database_->clearError();
  write_error_ = SQLITE_OK;
  EXPECT_TRUE(database_->inTransaction()) << "or the next line tests nothing";
  EXPECT_FALSE(database_->run("COMMIT"));
  EXPECT_EQ(database_->error(), SQLITE_FULL);
  database_->rollBack();
  expectOthersSee(0);
  run(insertRows(SomePages));
  expectOthersSee(SomePages);
}

TEST_F(GatheringVfsTest, NothingIsGatheredWhereSqlitePadsItsCommits) {
  database_.reset();
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open_v2(("file:" + path_ + "?psow=0").c_str(), &handle,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, gatheringVfs()),
            SQLITE_OK);
  writes_ = 0;
  EXPECT_EQ(sqlite3_exec(handle, insertRows(SomePages).c_str(), nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_GE(writes_, SomePages);
  expectOthersSee(SomePages);
  sqlite3_close_v2(handle);
}

TEST_F(GatheringVfsTest, DefaultVfsOfTheProcessStaysWhatItIs) {
  ASSERT_NE(gatheringVfs(), nullptr);
  EXPECT_STREQ(sqlite3_vfs_find(nullptr)->zName, "test");
  EXPECT_EQ(gatheringVfs(), gatheringVfs());
}

}  // namespace
}  // namespace idempotency::sqlite
