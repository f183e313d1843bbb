// What the embedded store writes, and how often it waits for the disk.
#include <atomic>
#include <vector>

#include "gtest/gtest.h"
#include <sqlite3.h>

#include "test/store/sqlite/sqlite_rig.h"
#include "test/store/sqlite/test_vfs.h"
#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using test_vfs::Call;

store::ClaimRequest claimRequest(const std::string& key) {
  store::ClaimRequest request;
  request.identity = {.tenant = "tenant", .operation = "operation", .key = key};
  request.fingerprint = "fingerprint";
  request.attempt = store::newAttempt();
  request.lease = 1h;
  return request;
}

class SqliteGroupCommitTest : public ::testing::Test {
protected:
  SqliteGroupCommitTest() {
    test_vfs::setFault([this](Call call, std::string_view) {
      writes_ += call == Call::Write ? 1 : 0;
      syncs_ += call == Call::Sync ? 1 : 0;
      return SQLITE_OK;
    });
  }
  ~SqliteGroupCommitTest() override { test_vfs::setFault(nullptr); }

  store::ClaimResult claim(store::ClaimRequest request) {
    Answer<store::ClaimResult> answer;
    rig_.store().claim(std::move(request), soon(), answer.callback());
    return answer.get();
  }

  SqliteRig rig_;
  std::atomic<int> writes_{0};
  std::atomic<int> syncs_{0};
};

TEST_F(SqliteGroupCommitTest, WhatWaitsTogetherIsCommittedTogether) {
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(claimRequest("first"))));
  rig_.block();
  // One is taken at once and waits for the lock; the others come meanwhile and go along.
  std::vector<Answer<store::ClaimResult>> answers(200);
  for (size_t i = 0; i < answers.size(); ++i) {
    rig_.store().claim(claimRequest("key" + std::to_string(i)), soon(), answers[i].callback());
  }
  syncs_ = 0;
  rig_.unblock();
  for (const Answer<store::ClaimResult>& answer : answers) {
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
  }
  EXPECT_EQ(syncs_, 1);
}

TEST_F(SqliteGroupCommitTest, LoneOperationIsCommittedAlone) {
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(claimRequest("first"))));
  syncs_ = 0;
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(claimRequest("second"))));
  EXPECT_EQ(syncs_, 1);
}

TEST_F(SqliteGroupCommitTest, DuplicatesWriteNothing) {
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(claimRequest("key"))));
  writes_ = 0;
  syncs_ = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(std::holds_alternative<store::Exists>(claim(claimRequest("key"))));
  }
  EXPECT_EQ(writes_, 0);
  EXPECT_EQ(syncs_, 0);
}

TEST_F(SqliteGroupCommitTest, ClaimOverQuotaWritesNothing) {
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(claimRequest("key"))));
  writes_ = 0;
  store::ClaimRequest request = claimRequest("more");
  request.tenant_live_keys = 1;
  ASSERT_TRUE(std::holds_alternative<store::OverQuota>(claim(request)));
  EXPECT_EQ(writes_, 0);
}

TEST_F(SqliteGroupCommitTest, FencedWriteWritesNothing) {
  const store::ClaimRequest request = claimRequest("key");
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(request)));
  writes_ = 0;
  protocol::Completed late;
  late.response = "late";
  Answer<store::WriteResult> answer;
  rig_.store().settle({request.identity, store::newAttempt()}, late, soon(), answer.callback());
  EXPECT_EQ(answer.get().outcome, store::WriteOutcome::Fenced);
  EXPECT_EQ(writes_, 0);
}

TEST_F(SqliteGroupCommitTest, LookUpsNeedNoLockOfWriters) {
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(claimRequest("key"))));
  rig_.block();
  Answer<store::LookUpResult> answer;
  rig_.store().lookUp(claimRequest("key").identity, soon(), answer.callback());
  EXPECT_TRUE(std::holds_alternative<store::Record>(answer.get()));
  rig_.unblock();
}

}  // namespace
}  // namespace idempotency::test
