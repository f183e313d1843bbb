#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "source/store/maintenance_store.h"
#include "source/store/record.h"
#include "source/store/store.h"

namespace idempotency::test {

struct AuditEntry {
  std::string action;
  std::optional<Identity> identity;  // None: one entry for all of a step.
  uint64_t count = 1;
};

// What FakeStores remember. Outlives them, may be shared by several, as a database is by processes.
// Its clock stands still unless a test moves it. Any thread.
class FakeDatabase {
public:
  void passTime(std::chrono::milliseconds time);
  StoreTime now() const;
  void setRecoveryPoint(const Identity& identity, std::string recovery_point);
  std::vector<AuditEntry> audit() const;
  size_t size() const;

  ClaimResult claim(const ClaimRequest& request);
  WriteResult complete(const CompleteRequest& request);
  WriteResult fail(const FailRequest& request);
  WriteResult release(const ClaimRef& claim);
  WriteResult markUnknown(const UnknownRequest& request);
  ExtendResult extend(const std::vector<ClaimRef>& claims, std::chrono::milliseconds lease);
  LookUpResult lookUp(const Identity& identity) const;
  Leadership lead(const std::string& owner, std::chrono::milliseconds lease);
  MaintenanceResult sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after);
  MaintenanceResult reap(uint32_t limit, bool soft);

private:
  struct Row {
    Record record;  // Without what depends on the time of reading.
    StoreTime lease_until{};
    std::optional<StoreTime> reconcile_at;
    LeaseExpired on_lease_expired = LeaseExpired::Unknown;
    bool reclaimed = false;  // In its present life.
  };
  using Rows = std::map<Identity, Row>;

  Record read(const Row& row) const;
  bool isOver(const Row& row) const;
  bool mayReclaim(const Row& row, const ReclaimFrom& from) const;
  bool hasRoom(const ClaimRequest& request) const;
  Row* owned(const ClaimRef& claim);
  // The row if this attempt may write it; else the outcome.
  WriteResult write(const ClaimRef& claim, RecordState to, const std::function<void(Row&)>& change);

  mutable std::mutex mutex_;
  StoreTime now_{std::chrono::milliseconds(1'700'000'000'000)};
  Rows rows_;
  std::vector<AuditEntry> audit_;
  std::string leader_;
  StoreTime leader_until_{};
};

// A store that really works, in memory, with a thread of its own, and that a test can disturb.
class FakeStore : public Store, public MaintenanceStore {
public:
  explicit FakeStore(std::shared_ptr<FakeDatabase> database = std::make_shared<FakeDatabase>());
  ~FakeStore() override;

  FakeDatabase& database() { return *database_; }

  // Nothing is carried out until resume(); deadlines still pass.
  void pause();
  void resume();
  // Everything gets Unavailable with this reason, until none is given.
  void setFailure(std::optional<std::string> reason);
  // The next operation is carried out, but its caller learns only that it is in doubt.
  void loseNextAnswer();

  // How many operations it has been asked for, its own among them.
  uint64_t operations();
  // Waits until all that it has been asked for so far is answered; not while it is paused.
  void flush();

  // Store
  void claim(ClaimRequest request, Deadline deadline,
             std::function<void(ClaimResult)> done) override;
  void abandon(ClaimRef claim) override;
  void complete(CompleteRequest request, Deadline deadline,
                std::function<void(WriteResult)> done) override;
  void fail(FailRequest request, Deadline deadline, std::function<void(WriteResult)> done) override;
  void release(ClaimRef claim, Deadline deadline, std::function<void(WriteResult)> done) override;
  void markUnknown(UnknownRequest request, Deadline deadline,
                   std::function<void(WriteResult)> done) override;
  void extend(std::vector<ClaimRef> claims, std::chrono::milliseconds lease, Deadline deadline,
              std::function<void(ExtendResult)> done) override;
  void lookUp(Identity identity, Deadline deadline,
              std::function<void(LookUpResult)> done) override;
  StoreStatus status() const override;

  // MaintenanceStore
  void lead(std::string owner, std::chrono::milliseconds lease, Deadline deadline,
            std::function<void(Leadership)> done) override;
  void sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
             Deadline deadline, std::function<void(MaintenanceResult)> done) override;
  void reap(uint32_t limit, bool soft, Deadline deadline,
            std::function<void(MaintenanceResult)> done) override;

private:
  // How an operation ends.
  enum class Ending { Refused, CarriedOut, AnswerLost };
  struct Operation {
    Deadline deadline;
    std::function<void(Ending, const std::string& reason)> finish;
    std::optional<ClaimRef> claim;  // Claims only.
    bool abandoned = false;
    bool own = false;  // The store's own release of an abandoned claim: waits until it can be done.
  };

  void post(Operation operation);
  template <typename Result>
  void post(Deadline deadline, std::function<Result(FakeDatabase&)> carryOut,
            std::function<Result(bool in_doubt, const std::string& reason)> refusal,
            std::function<void(Result)> done);
  void postWrite(Deadline deadline, std::function<WriteResult(FakeDatabase&)> carryOut,
                 std::function<void(WriteResult)> done);
  void run();
  // The next operation that can end now, with how; none: wait. The lock is held.
  std::optional<Operation> take(Ending& ending, std::string& reason);
  Deadline earliestDeadline() const;

  const std::shared_ptr<FakeDatabase> database_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> operations_;
  uint64_t posted_ = 0;
  uint64_t finished_ = 0;
  bool paused_ = false;
  bool stopping_ = false;
  bool lose_next_answer_ = false;
  std::optional<std::string> failure_;
  std::thread thread_;  // Last: the rest is there when it starts.
};

}  // namespace idempotency::test
