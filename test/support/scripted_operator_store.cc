#include "test/support/scripted_operator_store.h"

#include <algorithm>
#include <utility>

namespace idempotency::test {
namespace {

using std::chrono_literals::operator""s;

absl::Status broken() {
  return absl::UnavailableError("the store is broken");
}

bool isIn(const store::OperationSet& operations, const std::string& operation) {
  const bool named = std::find(operations.names.begin(), operations.names.end(), operation) !=
                     operations.names.end();
  return named != operations.all_but;
}

}  // namespace

void OperatorScript::makeDue(store::DueRecord due) {
  const std::lock_guard lock(mutex_);
  due_.push_back(std::move(due));
}

void OperatorScript::setUnsettled(std::vector<store::UnsettledUse> unsettled) {
  const std::lock_guard lock(mutex_);
  unsettled_ = std::move(unsettled);
}

void OperatorScript::answerChanges(store::ChangeOutcome outcome) {
  const std::lock_guard lock(mutex_);
  outcome_ = outcome;
}

void OperatorScript::failCalls(int count) {
  const std::lock_guard lock(mutex_);
  failures_ = count;
}

void OperatorScript::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void OperatorScript::open() {
  const std::lock_guard lock(mutex_);
  closed_ = false;
  changed_.notify_all();
}

std::vector<store::OperatorChange> OperatorScript::changes() {
  const std::lock_guard lock(mutex_);
  return changes_;
}

std::vector<OperatorScript::Taken> OperatorScript::taken() {
  const std::lock_guard lock(mutex_);
  return taken_;
}

int OperatorScript::opened() {
  const std::lock_guard lock(mutex_);
  return opened_;
}

int OperatorScript::living() {
  const std::lock_guard lock(mutex_);
  return living_;
}

int OperatorScript::waiting() {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

bool OperatorScript::wait(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (!condition()) {
    std::unique_lock lock(mutex_);
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(5));
  }
  return true;
}

ScriptedOperatorStore::ScriptedOperatorStore(std::shared_ptr<OperatorScript> script)
    : script_(std::move(script)) {
  const std::lock_guard lock(script_->mutex_);
  ++script_->opened_;
  ++script_->living_;
}

ScriptedOperatorStore::~ScriptedOperatorStore() {
  const std::lock_guard lock(script_->mutex_);
  --script_->living_;
  script_->changed_.notify_all();
}

bool ScriptedOperatorStore::fails() {
  return script_->failures_ > 0 && script_->failures_-- > 0;
}

absl::StatusOr<store::RecordPage> ScriptedOperatorStore::list(
    const store::RecordFilter& /*filter*/, const std::optional<protocol::Identity>& /*after*/,
    uint32_t /*limit*/) {
  return store::RecordPage();
}

absl::StatusOr<std::optional<store::ListedRecord>> ScriptedOperatorStore::find(
    const protocol::Identity& /*identity*/) {
  return std::optional<store::ListedRecord>();
}

absl::StatusOr<store::AuditPage> ScriptedOperatorStore::audit(const store::AuditFilter& /*filter*/,
                                                              std::optional<int64_t> /*before*/,
                                                              uint32_t /*limit*/) {
  return store::AuditPage();
}

absl::StatusOr<store::PurgeResult> ScriptedOperatorStore::purge(const store::Purge& /*purge*/,
                                                                uint32_t /*limit*/) {
  return store::PurgeResult();
}

absl::StatusOr<store::ChangeResult> ScriptedOperatorStore::change(
    const store::OperatorChange& change) {
  const std::lock_guard lock(script_->mutex_);
  if (fails()) {
    return broken();
  }
  script_->changes_.push_back(change);
  script_->changed_.notify_all();
  return store::ChangeResult{.outcome = script_->outcome_, .found = std::nullopt};
}

absl::StatusOr<store::Summary> ScriptedOperatorStore::summary() {
  const std::lock_guard lock(script_->mutex_);
  if (fails()) {
    return broken();
  }
  store::Summary summary;
  summary.unsettled = script_->unsettled_;
  return summary;
}

absl::StatusOr<std::vector<store::UnsettledUse>> ScriptedOperatorStore::unsettled() {
  const std::lock_guard lock(script_->mutex_);
  if (fails()) {
    return broken();
  }
  return script_->unsettled_;
}

absl::StatusOr<std::vector<store::DueRecord>> ScriptedOperatorStore::takeDue(
    const store::OperationSet& operations, std::chrono::milliseconds hold, uint32_t limit) {
  std::unique_lock lock(script_->mutex_);
  ++script_->waiting_;
  script_->changed_.notify_all();
  script_->changed_.wait(lock, [this] { return !script_->closed_; });
  --script_->waiting_;
  if (fails()) {
    return broken();
  }
  script_->taken_.push_back({operations, hold, limit});
  std::vector<store::DueRecord> taken;
  std::erase_if(script_->due_, [&](const store::DueRecord& due) {
    const bool takes = taken.size() < limit && isIn(operations, due.claim.identity.operation);
    if (takes) {
      taken.push_back(due);
    }
    return takes;
  });
  script_->changed_.notify_all();
  return taken;
}

}  // namespace idempotency::test
