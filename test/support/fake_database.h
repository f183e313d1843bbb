#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "source/protocol/ending.h"
#include "source/store/maintenance_store.h"
#include "source/store/record.h"
#include "source/store/store.h"

namespace idempotency::test {

struct AuditEntry {
  std::string action;
  std::optional<protocol::Identity> identity;  // None: one entry for all of a step.
  uint64_t count = 1;
};

// What stores in memory remember. Outlives them, may be shared by several, as a database is by
// processes. Its clock stands still unless a test moves it. Any thread.
class FakeDatabase {
public:
  void passTime(std::chrono::milliseconds time);
  store::StoreTime now() const;
  void setRecoveryPoint(const protocol::Identity& identity, std::string recovery_point);
  std::vector<AuditEntry> audit() const;
  size_t size() const;

  store::ClaimResult claim(const store::ClaimRequest& request);
  store::WriteResult settle(const store::ClaimRef& claim, const protocol::Ending& ending);
  store::ExtendResult extend(const std::vector<store::ClaimRef>& claims,
                             std::chrono::milliseconds lease);
  store::LookUpResult lookUp(const protocol::Identity& identity) const;
  store::Leadership lead(const std::string& owner, std::chrono::milliseconds lease);
  store::MaintenanceResult sweep(uint32_t limit,
                                 std::optional<std::chrono::milliseconds> reconcile_after);
  store::MaintenanceResult reap(uint32_t limit, bool soft);

private:
  struct Row {
    store::Record record;  // Without what depends on the time of reading.
    store::StoreTime lease_until{};
    store::StoreTime claimed_at{};
    std::optional<store::StoreTime> reconcile_at;
    bool reclaimed = false;  // In its present life.
  };
  using Rows = std::map<protocol::Identity, Row>;

  store::Record read(const Row& row) const;
  bool hasRoom(const store::ClaimRequest& request) const;
  Row* owned(const store::ClaimRef& claim);
  // With the lock held: the row is this attempt's, and the ending may be written to it.
  void write(Rows::iterator row, const protocol::Completed& completed);
  void write(Rows::iterator row, const protocol::Failed& failed);
  void write(Rows::iterator row, const protocol::Released& released);
  void write(Rows::iterator row, const protocol::Unknown& unknown);

  mutable std::mutex mutex_;
  store::StoreTime now_{std::chrono::milliseconds(1'700'000'000'000)};
  Rows rows_;
  std::vector<AuditEntry> audit_;
  std::string leader_;
  store::StoreTime leader_until_{};
};

// The methods of a store, worded as calls of a FakeDatabase. When a call is carried out, and what
// its caller learns, is for the derived class.
class DatabaseStore : public store::Store, public store::MaintenanceStore {
public:
  explicit DatabaseStore(std::shared_ptr<FakeDatabase> database) : database_(std::move(database)) {}

  FakeDatabase& database() { return *database_; }

  // As a reason: it is not the database's fault.
  static constexpr char QueueFull[] = "the queue is full";

  // Store
  void claim(store::ClaimRequest request, store::Deadline deadline,
             std::function<void(store::ClaimResult)> done) override;
  void settle(store::ClaimRef claim, protocol::Ending ending, store::Deadline deadline,
              std::function<void(store::WriteResult)> done) override;
  void extend(std::vector<store::ClaimRef> claims, std::chrono::milliseconds lease,
              store::Deadline deadline, std::function<void(store::ExtendResult)> done) override;
  void lookUp(protocol::Identity identity, store::Deadline deadline,
              std::function<void(store::LookUpResult)> done) override;
  void lookUpMany(std::vector<protocol::Identity> identities, store::Deadline deadline,
                  store::LookUpManyCallback done) override;

  // MaintenanceStore
  void lead(std::string owner, std::chrono::milliseconds lease, store::Deadline deadline,
            std::function<void(store::Leadership)> done) override;
  void sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
             store::Deadline deadline, std::function<void(store::MaintenanceResult)> done) override;
  void reap(uint32_t limit, bool soft, store::Deadline deadline,
            std::function<void(store::MaintenanceResult)> done) override;

protected:
  // What the caller learns.
  enum class Verdict : uint8_t {
    Refused,  // It was not carried out.
    InDoubt,
    True,  // The result. Only after the effect.
  };
  struct Call {
    store::Deadline deadline = store::Deadline::max();
    std::function<void()> effect;  // Carries it out, and keeps its result. Outlives the store.
    // Runs the callback. `reason` is unused if the verdict is True.
    std::function<void(Verdict, const std::string& reason)> answer;
    std::optional<store::ClaimRef> claim;  // Of a claim.
  };
  virtual void post(Call call) = 0;

private:
  template <typename Result>
  void call(store::Deadline deadline, std::function<Result(FakeDatabase&)> effect,
            std::function<Result(bool in_doubt, const std::string& reason)> failure,
            std::function<void(Result)> done, std::optional<store::ClaimRef> claim = std::nullopt);

  const std::shared_ptr<FakeDatabase> database_;
};

}  // namespace idempotency::test
