// The plans that SQLite makes for the store's statements.
#include "source/store/sqlite/statements.h"

#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "fmt/format.h"
#include "source/store/sqlite/database.h"
#include "source/store/sqlite/operator_statements.h"
#include "source/store/sqlite/schema.h"
#include "test/store/sqlite/sqlite_rig.h"

namespace idempotency::sqlite {
namespace {

class StatementsTest : public ::testing::Test {
protected:
  StatementsTest() {
    auto database = Database::open(folder_.path() + "/plans.db", true);
    EXPECT_TRUE(database.ok()) << database.status();
    database_ = *std::move(database);
    EXPECT_TRUE(migrate(*database_).ok());
  }

  static std::string text(Sql sql) {
    return std::string(statementTexts()[static_cast<size_t>(sql)]);
  }

  std::string plan(Sql sql) { return planOf(text(sql)); }
  std::string plan(OperatorSql sql) { return planOf(sqlite::text(sql)); }

  std::string planOf(std::string_view sql) {
    Statement statement(*database_, "EXPLAIN QUERY PLAN " + std::string(sql));
    Query row(statement);
    std::string plan;
    while (row.next()) {
      plan += row.bytes(3) + "\n";
    }
    EXPECT_EQ(database_->error(), SQLITE_OK) << database_->message();
    return plan;
  }

  // Whether the statement opens the table or index with that root page to write it.
  bool writesTo(Sql sql, int64_t root) {
    Statement statement(*database_, "EXPLAIN " + text(sql));
    Query row(statement);
    bool writes = false;
    while (row.next()) {
      writes = writes || (row.bytes(1) == "OpenWrite" && row.integer(3) == root);
    }
    EXPECT_EQ(database_->error(), SQLITE_OK) << database_->message();
    return writes;
  }

  const test::TemporaryFolder folder_;
  std::unique_ptr<Database> database_;
};

TEST_F(StatementsTest, EveryStatementIsWritten) {
  for (size_t i = 0; i < SqlCount; ++i) {
    EXPECT_FALSE(statementTexts()[i].empty()) << i;
    Statement statement(*database_, statementTexts()[i]);
    EXPECT_EQ(database_->error(), SQLITE_OK) << database_->message();
  }
}

TEST_F(StatementsTest, NothingScansATable) {
  for (size_t i = 0; i < SqlCount; ++i) {
    const std::string how = plan(static_cast<Sql>(i));
    EXPECT_EQ(how.find("SCAN record"), std::string::npos) << statementTexts()[i] << "\n" << how;
    EXPECT_EQ(how.find("SCAN response"), std::string::npos) << statementTexts()[i] << "\n" << how;
    EXPECT_EQ(how.find("SCAN tenant_use"), std::string::npos) << statementTexts()[i];
    EXPECT_EQ(how.find("TEMP B-TREE"), std::string::npos) << statementTexts()[i] << "\n" << how;
  }
}

TEST_F(StatementsTest, ClaimsAndLookUpsUseTheUniqueIndex) {
  const std::string unique =
      "USING INDEX sqlite_autoindex_record_1 (tenant=? AND operation=? AND key=?)";
  EXPECT_NE(plan(Sql::FindRecord).find(unique), std::string::npos) << plan(Sql::FindRecord);
  EXPECT_NE(plan(Sql::FindClaim).find(unique), std::string::npos) << plan(Sql::FindClaim);
  EXPECT_NE(plan(Sql::FindRecord).find("SEARCH response USING INTEGER PRIMARY KEY"),
            std::string::npos)
      << plan(Sql::FindRecord);
  // An upsert has no plan of its own; without the unique constraint it would not even be prepared.
  EXPECT_NE(text(Sql::InsertRecord).find("ON CONFLICT (tenant, operation, key) DO NOTHING"),
            std::string::npos);
}

TEST_F(StatementsTest, WritesGoStraightToTheirRow) {
  for (const Sql sql :
       {Sql::Reclaim, Sql::Complete, Sql::Renew, Sql::Fail, Sql::MarkUnknown, Sql::Extend,
        Sql::DeleteRecord, Sql::SetAside, Sql::CompleteLate, Sql::Expire}) {
    EXPECT_NE(plan(sql).find("SEARCH record USING INTEGER PRIMARY KEY (rowid=?)"),
              std::string::npos)
        << plan(sql);
  }
}

TEST_F(StatementsTest, CompletionLeavesTheIndexesOfOthersAlone) {
  for (const auto& [index, writer] :
       {std::pair("record_expiry", Sql::Renew), std::pair("record_due", Sql::MarkUnknown),
        std::pair("record_unknown", Sql::MarkUnknown),
        std::pair("record_unknown_attempt", Sql::MarkUnknown)}) {
    const int64_t root = database_->askNumber(
        fmt::format("SELECT rootpage FROM sqlite_schema WHERE name = '{}'", index));
    EXPECT_TRUE(writesTo(writer, root)) << index;
    EXPECT_FALSE(writesTo(Sql::Complete, root)) << index;
  }
}

TEST_F(StatementsTest, BackgroundJobsUseTheirIndexes) {
  EXPECT_NE(plan(Sql::FindDeadLeases).find("INDEX record_lease (lease_until<?)"), std::string::npos)
      << plan(Sql::FindDeadLeases);
  EXPECT_NE(plan(Sql::FindPastLife).find("INDEX record_expiry (expires_at<?)"), std::string::npos)
      << plan(Sql::FindPastLife);
  EXPECT_NE(plan(Sql::CountPastLife).find("COVERING INDEX record_expiry (expires_at<?)"),
            std::string::npos)
      << plan(Sql::CountPastLife);
}

TEST_F(StatementsTest, OperatorsReadNoMoreThanTheyAsk) {
  for (size_t i = 0; i < OperatorSqlCount; ++i) {
    const auto sql = static_cast<OperatorSql>(i);
    ASSERT_FALSE(sqlite::text(sql).empty()) << i;
    const std::string how = plan(sql);
    EXPECT_EQ(how.find("SCAN audit"), std::string::npos) << sqlite::text(sql) << "\n" << how;
    if (sql != OperatorSql::NewestStates) {  // Looks at so many records, whatever they are.
      EXPECT_EQ(how.find("SCAN"), std::string::npos) << sqlite::text(sql) << "\n" << how;
      EXPECT_EQ(how.find("TEMP B-TREE"), std::string::npos) << sqlite::text(sql) << "\n" << how;
    }
  }
}

TEST_F(StatementsTest, UnknownRecordsAreFoundAmongUnknownRecordsOnly) {
  EXPECT_NE(plan(OperatorSql::FindDue).find("record_due (operation=? AND <expr><?)"),
            std::string::npos)
      << plan(OperatorSql::FindDue);
  EXPECT_NE(plan(OperatorSql::NextDueOperation).find("record_due (operation>?)"), std::string::npos)
      << plan(OperatorSql::NextDueOperation);
  EXPECT_NE(
      plan(OperatorSql::OldestUnknown).find("record_unknown (operation=? AND unknown_since>?)"),
      std::string::npos)
      << plan(OperatorSql::OldestUnknown);
}

TEST_F(StatementsTest, PlansStayTheSameWithStatistics) {
  ASSERT_TRUE(database_->run(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
      "INSERT INTO record (tenant, operation, key, fingerprint, state, attempt, recovery_point, "
      "lease_until, on_lease_expired, created_at, expires_at) "
      "SELECT x'01', x'02', CAST(i AS BLOB), x'', 2, i, 'started', i, 0, i, i FROM n; ANALYZE"))
      << database_->message();
  EXPECT_NE(
      plan(Sql::FindRecord).find("sqlite_autoindex_record_1 (tenant=? AND operation=? AND key=?)"),
      std::string::npos)
      << plan(Sql::FindRecord);
  EXPECT_NE(plan(Sql::FindPastLife).find("record_expiry"), std::string::npos)
      << plan(Sql::FindPastLife);
}

TEST_F(StatementsTest, ClockReturnsMilliseconds) {
  const int64_t before = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  const int64_t now = database_->askNumber(text(Sql::Now));
  const int64_t after = std::chrono::duration_cast<std::chrono::milliseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  EXPECT_GE(now, before - 1);
  EXPECT_LE(now, after + 1);
}

}  // namespace
}  // namespace idempotency::sqlite
