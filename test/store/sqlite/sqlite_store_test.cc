// The embedded store keeps the contract.
#include "source/store/sqlite/sqlite_store.h"

#include "gtest/gtest.h"

#include "test/store/sqlite/sqlite_rig.h"
#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

StoreKind sqliteKind() {
  return {"Sqlite", [] { return std::make_unique<SqliteRig>(); }};
}

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreContractTest, ::testing::Values(sqliteKind()), storeKindName);
INSTANTIATE_TEST_SUITE_P(Sqlite, MaintenanceContractTest, ::testing::Values(sqliteKind()),
                         storeKindName);

// What the contract cannot see.
class SqliteContentTest : public ::testing::Test {
protected:
  ClaimRef claim(std::optional<ReclaimFrom> from = {}) {
    ClaimRequest request;
    request.identity = {"tenant", "operation", "key"};
    request.attempt = newAttempt();
    request.from = from;
    Answer<ClaimResult> answer;
    rig_.store().claim(request, soon(), answer.callback());
    EXPECT_TRUE(std::holds_alternative<Claimed>(answer.get()));
    return {request.identity, request.attempt};
  }
  ClaimRef complete() {
    CompleteRequest request;
    request.claim = claim();
    request.response = "response";
    Answer<WriteResult> answer;
    rig_.store().complete(request, soon(), answer.callback());
    EXPECT_EQ(answer.get().outcome, WriteOutcome::Done);
    return request.claim;
  }
  MaintenanceResult reap(bool soft) {
    Answer<MaintenanceResult> answer;
    rig_.store().reap(10, soft, soon(), answer.callback());
    return answer.get();
  }
  int64_t count(const std::string& table) {
    return rig_.askNumber("SELECT count(*) FROM " + table);
  }

  SqliteRig rig_;
};

TEST_F(SqliteContentTest, ResponseGoesWhenItsKeyIsClaimedAgain) {
  const ClaimRef first = complete();
  EXPECT_EQ(count("response"), 1);
  rig_.passTime(std::chrono::hours(25));
  const ClaimRef second = claim(ReclaimFrom{RecordState::Completed, first.attempt});
  EXPECT_EQ(count("response"), 0);
  Answer<WriteResult> released;
  rig_.store().release(second, soon(), released.callback());
  EXPECT_EQ(released.get().outcome, WriteOutcome::Done);
  EXPECT_EQ(count("record"), 0);
}

TEST_F(SqliteContentTest, ResponseGoesWithTheReaper) {
  for (const bool soft : {true, false}) {
    complete();
    rig_.passTime(std::chrono::hours(25));
    EXPECT_TRUE(reap(soft).ok);
    EXPECT_EQ(count("response"), 0);
    EXPECT_EQ(count("record"), soft ? 1 : 0);
    rig_.run("DELETE FROM record");
  }
}

TEST_F(SqliteContentTest, UseOfATenantIsExactlyTheNumberOfItsRecords) {
  const std::string use = "SELECT coalesce(sum(records), 0) FROM tenant_use";
  const ClaimRef first = complete();
  EXPECT_EQ(rig_.askNumber(use), 1);
  rig_.passTime(std::chrono::hours(25));
  EXPECT_EQ(reap(true).expired, 1U);
  EXPECT_EQ(rig_.askNumber(use), 0);
  const ClaimRef second = claim(ReclaimFrom{RecordState::Expired, first.attempt});
  EXPECT_EQ(rig_.askNumber(use), 1);
  Answer<WriteResult> released;
  rig_.store().release(second, soon(), released.callback());
  released.get();
  EXPECT_EQ(rig_.askNumber(use), 0);
  complete();
  rig_.passTime(std::chrono::hours(25));
  EXPECT_EQ(reap(false).deleted, 1U);
  EXPECT_EQ(rig_.askNumber(use), 0);
}

}  // namespace
}  // namespace idempotency::test
