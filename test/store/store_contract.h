#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "source/protocol/ending.h"
#include "source/store/maintenance_store.h"
#include "source/store/operator_store.h"
#include "source/store/record.h"
#include "source/store/store.h"
#include "test/support/fake_store.h"

// What every Store must do, as one suite. A store takes part with a rig of its own, in its own
// test:
//
//   INSTANTIATE_TEST_SUITE_P(Sqlite, StoreContractTest, ::testing::Values(StoreKind{"Sqlite",
//   make}),
//                            storeKindName);
//
// and the same for MaintenanceContractTest and, if it has operators, OperatorContractTest.
namespace idempotency::test {

// A store, and the means to look behind it and to disturb it.
class StoreRig {
public:
  virtual ~StoreRig() = default;

  virtual store::Store& store() = 0;
  virtual store::MaintenanceStore& maintenance() = 0;
  // A second store on the same data, as another process has it. Made when first asked for.
  virtual store::Store& other() = 0;

  // Destroys the stores; their data stay.
  virtual void stop() = 0;
  // The same data as an operator reaches them; made anew at each call. Null: this store has no
  // operators.
  virtual std::unique_ptr<store::OperatorStore> openOperator() { return nullptr; }
  // Makes the store anew, on the same data.
  virtual void start() = 0;

  // Makes every time in the data (leases, lives, leadership, reconciliation) this much nearer: by
  // moving the store's clock, or the times themselves.
  virtual void passTime(std::chrono::milliseconds time) = 0;
  // What the upstream's own transaction does.
  virtual void setRecoveryPoint(const protocol::Identity& identity,
                                const std::string& recovery_point) = 0;
  // All audit rows, oldest first.
  virtual std::vector<AuditEntry> audit() = 0;

  // From now on operations neither succeed nor fail, as behind a lock that another process holds.
  virtual void block() = 0;
  virtual void unblock() = 0;
  // The next write takes effect, or perhaps does, but its answer gets lost. False: this rig has no
  // way to do that.
  virtual bool loseNextAnswer() { return false; }
};

struct StoreKind {
  std::string name;
  std::function<std::unique_ptr<StoreRig>()> make;
};
inline void PrintTo(const StoreKind& kind, std::ostream* out) {
  *out << kind.name;
}
inline std::string storeKindName(const ::testing::TestParamInfo<StoreKind>& info) {
  return info.param.name;
}

// Far longer than anything here takes.
inline constexpr std::chrono::seconds LongTime{30};
inline store::Deadline soon() {
  return std::chrono::steady_clock::now() + LongTime;
}

// Where one callback's result arrives.
template <typename Result>
class Answer {
public:
  // To be handed to exactly one operation. It keeps the answer alive.
  std::function<void(Result)> callback() const {
    return [state = state_](Result result) {
      const std::lock_guard lock(state->mutex);
      ++state->calls;
      state->thread = std::this_thread::get_id();
      state->result = std::move(result);
      state->arrived.notify_all();
    };
  }
  // Waits for it. A refusing value, and a failed test, if it does not come.
  Result get() const {
    std::unique_lock lock(state_->mutex);
    if (!state_->arrived.wait_for(lock, LongTime, [this] { return state_->calls > 0; })) {
      ADD_FAILURE() << "the callback did not run";
      return Result();
    }
    return *state_->result;
  }
  int calls() const {
    const std::lock_guard lock(state_->mutex);
    return state_->calls;
  }
  std::thread::id thread() const {
    const std::lock_guard lock(state_->mutex);
    return state_->thread;
  }

private:
  struct State {
    std::mutex mutex;
    std::condition_variable arrived;
    std::optional<Result> result;
    std::thread::id thread;
    int calls = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Asks until the condition holds. False after a long time.
bool eventually(const std::function<bool()>& condition);

// The situations in which an operation can meet a record.
enum class Situation {
  Absent,
  Running,
  LeaseOver,       // Claimed under UNKNOWN,
  LeaseOverRetry,  // and under RETRY.
  Completed,
  CompletedPastLife,
  Failed,
  FailedPastLife,
  Unknown,
  UnknownPastLife,
  Expired,
};
std::string_view name(Situation situation);
inline void PrintTo(Situation situation, std::ostream* out) {
  *out << name(situation);
}
inline constexpr Situation AllSituations[] = {
    Situation::Absent,          Situation::Running,        Situation::LeaseOver,
    Situation::LeaseOverRetry,  Situation::Completed,      Situation::CompletedPastLife,
    Situation::Failed,          Situation::FailedPastLife, Situation::Unknown,
    Situation::UnknownPastLife, Situation::Expired,
};

// What both suites share: a rig, and the operations as calls that wait for their answer.
class StoreContractFixture : public ::testing::TestWithParam<StoreKind> {
protected:
  StoreContractFixture() : rig_(GetParam().make()) {}

  store::Store& store() { return rig_->store(); }

  static protocol::Identity identity(const std::string& key, const std::string& tenant = "tenant");
  static store::ClaimRequest claimRequest(const protocol::Identity& identity);
  // Of what is there, by somebody whose policy for a lease that ran out is this.
  store::ClaimRequest reclaimRequest(
      const protocol::Identity& identity,
      protocol::LeaseExpired on_lease_expired = protocol::LeaseExpired::Retry);
  static protocol::Completed completion(std::string response = "response");

  store::ClaimResult claim(store::ClaimRequest request);
  // Claims what is absent, or fails the test.
  store::ClaimRef mustClaim(const protocol::Identity& identity);
  store::ClaimRef mustClaim(store::ClaimRequest request);
  // Re-claims what is there, or fails the test.
  store::ClaimRef mustReclaim(const protocol::Identity& identity);
  store::WriteOutcome settle(const store::ClaimRef& claim, protocol::Ending ending);
  store::WriteResult settleWith(const store::ClaimRef& claim, protocol::Ending ending);
  store::WriteOutcome complete(const store::ClaimRef& claim, protocol::Completed completed);
  store::WriteOutcome fail(const store::ClaimRef& claim, std::string error = "upstream_503");
  store::WriteOutcome release(const store::ClaimRef& claim);
  store::WriteOutcome markUnknown(const store::ClaimRef& claim,
                                  std::optional<std::chrono::milliseconds> reconcile_after = {});
  store::WriteOutcome extend(const store::ClaimRef& claim, std::chrono::milliseconds lease);
  // None: absent.
  std::optional<store::Record> lookUp(const protocol::Identity& identity);
  // Fails the test if there is none.
  store::Record mustFind(const protocol::Identity& identity);
  bool isAbsent(const protocol::Identity& identity) { return !lookUp(identity).has_value(); }

  store::MaintenanceResult sweep(uint32_t limit = 1000,
                                 std::optional<std::chrono::milliseconds> reconcile_after = {});
  store::MaintenanceResult reap(uint32_t limit = 1000, bool soft = false);

  // Brings a record there; its last attempt. For Absent: an attempt that was released.
  store::ClaimRef reach(Situation situation, const protocol::Identity& identity);

  std::unique_ptr<StoreRig> rig_;
};

class StoreContractTest : public StoreContractFixture {};
class MaintenanceContractTest : public StoreContractFixture {};
class OperatorContractTest : public StoreContractFixture {
protected:
  OperatorContractTest() : operator_(rig_->openOperator()) {}

  store::ChangeResult change(store::OperatorStore& by, const store::ClaimRef& seen,
                             store::OperatorAction action, bool dry_run = false);
  store::ChangeOutcome change(const store::ClaimRef& seen, store::OperatorAction action,
                              bool dry_run = false) {
    return change(*operator_, seen, std::move(action), dry_run).outcome;
  }
  // Fails the test if the store does.
  std::vector<store::ListedRecord> list(const store::RecordFilter& filter = {},
                                        const std::optional<protocol::Identity>& after = {},
                                        uint32_t limit = 1000);

  std::unique_ptr<store::OperatorStore> operator_;
};

// A test of one store's own may use the rest of this header without taking part.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreContractTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaintenanceContractTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OperatorContractTest);

// Whether nothing but the course of time differs. Says what does.
::testing::AssertionResult sameRecord(const std::optional<store::Record>& before,
                                      const std::optional<store::Record>& after);

}  // namespace idempotency::test
