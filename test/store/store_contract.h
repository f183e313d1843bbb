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

#include "source/store/maintenance_store.h"
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
// and the same for MaintenanceContractTest.
namespace idempotency::test {

// A store, and the means to look behind it and to disturb it.
class StoreRig {
public:
  virtual ~StoreRig() = default;

  virtual Store& store() = 0;
  virtual MaintenanceStore& maintenance() = 0;
  // A second store on the same data, as another process has it. Made when first asked for.
  virtual Store& other() = 0;

  // Destroys the stores; their data stay.
  virtual void stop() = 0;
  // Makes the store anew, on the same data.
  virtual void start() = 0;

  // Makes every time in the data (leases, lives, leadership, reconciliation) this much nearer: by
  // moving the store's clock, or the times themselves.
  virtual void passTime(std::chrono::milliseconds time) = 0;
  // What the upstream's own transaction does.
  virtual void setRecoveryPoint(const Identity& identity, const std::string& recovery_point) = 0;
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
inline Deadline soon() {
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
  LeaseOver,
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
    Situation::Absent,         Situation::Running, Situation::LeaseOver,
    Situation::Completed,      Situation::Failed,  Situation::CompletedPastLife,
    Situation::FailedPastLife, Situation::Unknown, Situation::UnknownPastLife,
    Situation::Expired,
};

// What both suites share: a rig, and the operations as calls that wait for their answer.
class StoreContractFixture : public ::testing::TestWithParam<StoreKind> {
protected:
  StoreContractFixture() : rig_(GetParam().make()) {}

  Store& store() { return rig_->store(); }

  static Identity identity(const std::string& key, const std::string& tenant = "tenant");
  static ClaimRequest claimRequest(const Identity& identity);
  static CompleteRequest completeRequest(const ClaimRef& claim, std::string response = "response");

  ClaimResult claim(ClaimRequest request);
  // Claims what is absent, or fails the test.
  ClaimRef mustClaim(const Identity& identity);
  ClaimRef mustClaim(ClaimRequest request);
  // Re-claims what is there, or fails the test.
  ClaimRef mustReclaim(const Identity& identity);
  WriteOutcome complete(CompleteRequest request);
  WriteOutcome fail(const ClaimRef& claim, std::string error = "upstream_503");
  WriteOutcome release(const ClaimRef& claim);
  WriteOutcome markUnknown(const ClaimRef& claim,
                           std::optional<std::chrono::milliseconds> reconcile_after = {});
  WriteOutcome extend(const ClaimRef& claim, std::chrono::milliseconds lease);
  // None: absent.
  std::optional<Record> lookUp(const Identity& identity);
  // Fails the test if there is none.
  Record mustFind(const Identity& identity);
  bool isAbsent(const Identity& identity) { return !lookUp(identity).has_value(); }

  MaintenanceResult sweep(uint32_t limit = 1000,
                          std::optional<std::chrono::milliseconds> reconcile_after = {});
  MaintenanceResult reap(uint32_t limit = 1000, bool soft = false);

  // Brings a record there; its last attempt. For Absent: an attempt that was released.
  ClaimRef reach(Situation situation, const Identity& identity);

  std::unique_ptr<StoreRig> rig_;
};

class StoreContractTest : public StoreContractFixture {};
class MaintenanceContractTest : public StoreContractFixture {};

// A test of one store's own may use the rest of this header without taking part.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreContractTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaintenanceContractTest);

// Whether nothing but the course of time differs. Says what does.
::testing::AssertionResult sameRecord(const std::optional<Record>& before,
                                      const std::optional<Record>& after);

}  // namespace idempotency::test
