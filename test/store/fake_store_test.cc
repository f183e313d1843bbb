// FakeStore keeps the contract, so that what is tested on it holds on the real ones.
#include "test/support/fake_store.h"

#include <memory>

#include "gtest/gtest.h"

#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

class FakeStoreRig : public StoreRig {
public:
  FakeStoreRig() { start(); }
  store::Store& store() override { return *store_; }
  store::MaintenanceStore& maintenance() override { return *store_; }
  store::Store& other() override {
    if (other_ == nullptr) {
      other_ = std::make_unique<FakeStore>(database_);
    }
    return *other_;
  }
  void stop() override {
    store_.reset();
    other_.reset();
  }
  void start() override { store_ = std::make_unique<FakeStore>(database_); }
  void passTime(std::chrono::milliseconds time) override { database_->passTime(time); }
  void setRecoveryPoint(const protocol::Identity& identity,
                        const std::string& recovery_point) override {
    database_->setRecoveryPoint(identity, recovery_point);
  }
  std::vector<AuditEntry> audit() override { return database_->audit(); }
  void block() override { store_->pause(); }
  void unblock() override {
    if (store_ != nullptr) {
      store_->resume();
    }
  }
  bool loseNextAnswer() override {
    store_->loseNextAnswer();
    return true;
  }

private:
  std::shared_ptr<FakeDatabase> database_ = std::make_shared<FakeDatabase>();
  std::unique_ptr<FakeStore> store_;
  std::unique_ptr<FakeStore> other_;
};

StoreKind fakeKind() {
  return {"Fake", [] { return std::make_unique<FakeStoreRig>(); }};
}

INSTANTIATE_TEST_SUITE_P(Fake, StoreContractTest, ::testing::Values(fakeKind()), storeKindName);
INSTANTIATE_TEST_SUITE_P(Fake, MaintenanceContractTest, ::testing::Values(fakeKind()),
                         storeKindName);

TEST(FakeStoreTest, FailureIsToldUntilItEnds) {
  FakeStore store;
  store.setFailure("down");
  Answer<store::LookUpResult> down;
  store.lookUp({"t", "o", "k"}, soon(), down.callback());
  const store::LookUpResult result = down.get();
  ASSERT_TRUE(std::holds_alternative<store::Unavailable>(result));
  EXPECT_EQ(std::get<store::Unavailable>(result).reason, "down");
  store.setFailure(std::nullopt);
  Answer<store::LookUpResult> up;
  store.lookUp({"t", "o", "k"}, soon(), up.callback());
  EXPECT_TRUE(std::holds_alternative<store::Absent>(up.get()));
}

TEST(FakeStoreTest, ClaimAbandonedWhileTheStoreFailsIsReleasedAfterwards) {
  FakeStore store;
  store::ClaimRequest request;
  request.identity = {"t", "o", "k"};
  request.attempt = store::newAttempt();
  Answer<store::ClaimResult> claimed;
  store.claim(request, soon(), claimed.callback());
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claimed.get()));
  store.setFailure("down");
  store.abandon({request.identity, request.attempt});
  Answer<store::LookUpResult> down;
  store.lookUp(request.identity, soon(), down.callback());
  ASSERT_TRUE(std::holds_alternative<store::Unavailable>(down.get()));
  EXPECT_EQ(store.database().size(), 1U);
  store.setFailure(std::nullopt);
  EXPECT_TRUE(eventually([&] { return store.database().size() == 0; }));
}

TEST(FakeStoreTest, ClockStandsStillUnlessItIsMoved) {
  FakeStore store;
  store::ClaimRequest request;
  request.identity = {"t", "o", "k"};
  request.attempt = store::newAttempt();
  request.lease = 1s;
  Answer<store::ClaimResult> claimed;
  store.claim(request, soon(), claimed.callback());
  claimed.get();
  store.database().passTime(999ms);
  store::LookUpResult found = store.database().lookUp(request.identity);
  EXPECT_EQ(std::get<store::Record>(found).lease_left, 1ms);
  store.database().passTime(1ms);
  found = store.database().lookUp(request.identity);
  EXPECT_FALSE(std::get<store::Record>(found).lease_alive);
}

}  // namespace
}  // namespace idempotency::test
