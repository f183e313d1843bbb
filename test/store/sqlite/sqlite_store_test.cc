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
INSTANTIATE_TEST_SUITE_P(Sqlite, OperatorContractTest, ::testing::Values(sqliteKind()),
                         storeKindName);

// What the contract cannot see.
class SqliteContentTest : public ::testing::Test {
protected:
  store::ClaimRef claim(std::optional<store::ReclaimFrom> from = {}) {
    store::ClaimRequest request;
    request.identity = {"tenant", "operation", "key"};
    request.attempt = store::newAttempt();
    request.from = from;
    Answer<store::ClaimResult> answer;
    rig_.store().claim(request, soon(), answer.callback());
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
    return {request.identity, request.attempt};
  }
  store::ClaimRef complete() {
    const store::ClaimRef ref = claim();
    protocol::Completed ending;
    ending.response = "response";
    Answer<store::WriteResult> answer;
    rig_.store().settle(ref, ending, soon(), answer.callback());
    EXPECT_EQ(answer.get().outcome, store::WriteOutcome::Done);
    return ref;
  }
  store::MaintenanceResult reap(bool soft) {
    Answer<store::MaintenanceResult> answer;
    rig_.store().reap(10, soft, soon(), answer.callback());
    return answer.get();
  }
  int64_t count(const std::string& table) {
    return rig_.askNumber("SELECT count(*) FROM " + table);
  }

  SqliteRig rig_;
};

TEST_F(SqliteContentTest, ResponseGoesWhenItsKeyIsClaimedAgain) {
  const store::ClaimRef first = complete();
  EXPECT_EQ(count("response"), 1);
  rig_.passTime(std::chrono::hours(25));
  const store::ClaimRef second =
      claim(store::ReclaimFrom{protocol::RecordState::Completed, first.attempt});
  EXPECT_EQ(count("response"), 0);
  Answer<store::WriteResult> released;
  rig_.store().settle(second, protocol::Released{}, soon(), released.callback());
  EXPECT_EQ(released.get().outcome, store::WriteOutcome::Done);
  EXPECT_EQ(count("record"), 0);
}

TEST_F(SqliteContentTest, BatchesThatFailAreCounted) {
  claim();
  EXPECT_EQ(rig_.store().status().batches_failed, 0u);
  rig_.run("ALTER TABLE record RENAME TO hidden");
  Answer<store::LookUpResult> answer;
  rig_.store().lookUp({"tenant", "operation", "key"}, soon(), answer.callback());
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(answer.get()));
  const store::StoreStatus failed = rig_.store().status();
  EXPECT_GE(failed.batches_failed, 1u);
  EXPECT_GE(failed.batches, failed.batches_failed + 1);
  rig_.run("ALTER TABLE hidden RENAME TO record");
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
  const store::ClaimRef first = complete();
  EXPECT_EQ(rig_.askNumber(use), 1);
  rig_.passTime(std::chrono::hours(25));
  EXPECT_EQ(reap(true).expired, 1U);
  EXPECT_EQ(rig_.askNumber(use), 0);
  const store::ClaimRef second =
      claim(store::ReclaimFrom{protocol::RecordState::Expired, first.attempt});
  EXPECT_EQ(rig_.askNumber(use), 1);
  Answer<store::WriteResult> released;
  rig_.store().settle(second, protocol::Released{}, soon(), released.callback());
  released.get();
  EXPECT_EQ(rig_.askNumber(use), 0);
  complete();
  rig_.passTime(std::chrono::hours(25));
  EXPECT_EQ(reap(false).deleted, 1U);
  EXPECT_EQ(rig_.askNumber(use), 0);
}

}  // namespace
}  // namespace idempotency::test
