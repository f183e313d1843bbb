#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "source/store/operator_store.h"

namespace idempotency::test {

// What the operators' stores of a test say, and what they were told. Any thread.
class OperatorScript {
public:
  struct Taken {
    store::OperationSet operations;
    std::chrono::milliseconds hold{0};
    uint32_t limit = 0;
  };

  // The next call of takeDue() for a fitting operation takes these.
  void makeDue(store::DueRecord due);
  void setUnsettled(std::vector<store::UnsettledUse> unsettled);
  // The answer to changes from now on.
  void answerChanges(store::ChangeOutcome outcome);
  // This many calls fail from now on, of all stores together.
  void failCalls(int count);
  // Until open(), every call of takeDue() waits inside.
  void close();
  void open();

  std::vector<store::OperatorChange> changes();
  std::vector<Taken> taken();
  int opened();
  int living();
  int waiting();
  // Waits until this holds; false after a deadline.
  bool wait(const std::function<bool()>& condition);

private:
  friend class ScriptedOperatorStore;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<store::DueRecord> due_;
  std::vector<store::UnsettledUse> unsettled_;
  std::vector<store::OperatorChange> changes_;
  std::vector<Taken> taken_;
  store::ChangeOutcome outcome_ = store::ChangeOutcome::Done;
  int failures_ = 0;
  int opened_ = 0;
  int living_ = 0;
  int waiting_ = 0;
  bool closed_ = false;
};

class ScriptedOperatorStore : public store::OperatorStore {
public:
  explicit ScriptedOperatorStore(std::shared_ptr<OperatorScript> script);
  ~ScriptedOperatorStore() override;

  absl::StatusOr<store::RecordPage> list(const store::RecordFilter& filter,
                                         const std::optional<protocol::Identity>& after,
                                         uint32_t limit) override;
  absl::StatusOr<std::optional<store::ListedRecord>> find(
      const protocol::Identity& identity) override;
  absl::StatusOr<store::AuditPage> audit(const store::AuditFilter& filter,
                                         std::optional<int64_t> before, uint32_t limit) override;
  absl::StatusOr<store::ChangeResult> change(const store::OperatorChange& change) override;
  absl::StatusOr<store::PurgeResult> purge(const store::Purge& purge, uint32_t limit) override;
  absl::StatusOr<store::Summary> summary() override;
  absl::StatusOr<std::vector<store::UnsettledUse>> unsettled() override;
  absl::StatusOr<std::vector<store::DueRecord>> takeDue(const store::OperationSet& operations,
                                                        std::chrono::milliseconds hold,
                                                        uint32_t limit) override;

private:
  // With the lock held. True: this call fails.
  bool fails();

  const std::shared_ptr<OperatorScript> script_;
};

}  // namespace idempotency::test
