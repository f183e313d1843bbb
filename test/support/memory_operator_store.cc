#include "test/support/memory_operator_store.h"

#include <algorithm>
#include <utility>

#include "source/store/audit.h"
#include "source/store/open/open_operator_store.h"
#include "source/store/operator_rules.h"

namespace idempotency::test {
namespace {

using protocol::RecordState;

bool matches(const store::RecordFilter& filter, const protocol::Identity& identity,
             const store::Record& record) {
  const bool state = filter.states.empty() ||
                     std::count(filter.states.begin(), filter.states.end(), record.state) > 0;
  return state && identity.tenant == filter.tenant.value_or(identity.tenant) &&
         identity.key == filter.key.value_or(identity.key) &&
         record.attempt == filter.attempt.value_or(record.attempt);
}

// Does what the rules allow.
void apply(const store::OperatorAction& action, const protocol::Identity& identity,
           std::map<protocol::Identity, store::Record>& records) {
  store::Record& record = records.at(identity);
  if (const auto* completed = std::get_if<protocol::Completed>(&action)) {
    record.state = RecordState::Completed;
    record.status = completed->status;
    record.tombstone = completed->tombstone;
    record.response = completed->response;
  } else if (std::holds_alternative<store::NotRun>(action)) {
    record.state = RecordState::FailedRetryable;
    record.last_error = store::ResolvedNotRunError;
  } else if (const auto* again = std::get_if<store::AskAgain>(&action)) {
    record.reconcile_after = again->after;
  } else {
    records.erase(identity);
  }
}

class MemoryOperatorStore : public store::OperatorStore {
public:
  explicit MemoryOperatorStore(OperatorMemory& memory) : memory_(memory) {}

  absl::StatusOr<store::RecordPage> list(const store::RecordFilter& filter,
                                         const std::optional<protocol::Identity>& after,
                                         uint32_t limit) override {
    if (const absl::Status status = enter("list"); !status.ok()) {
      return status;
    }
    const std::lock_guard lock(memory_.mutex);
    store::RecordPage page;
    for (const auto& [identity, record] : memory_.records) {
      if ((after.has_value() && identity <= *after) || !matches(filter, identity, record)) {
        continue;
      }
      if (page.records.size() == limit) {
        page.more = true;
        break;
      }
      page.records.push_back({identity, record});
    }
    return page;
  }

  absl::StatusOr<std::optional<store::ListedRecord>> find(
      const protocol::Identity& identity) override {
    if (const absl::Status status = enter("find"); !status.ok()) {
      return status;
    }
    const std::lock_guard lock(memory_.mutex);
    const auto found = memory_.records.find(identity);
    if (found == memory_.records.end()) {
      return std::optional<store::ListedRecord>();
    }
    return store::ListedRecord{.identity = identity, .record = found->second};
  }

  absl::StatusOr<store::AuditPage> audit(const store::AuditFilter& filter,
                                         std::optional<int64_t> before, uint32_t limit) override {
    if (const absl::Status status = enter("audit"); !status.ok()) {
      return status;
    }
    const std::lock_guard lock(memory_.mutex);
    store::AuditPage page;
    for (auto entry = memory_.audit.rbegin(); entry != memory_.audit.rend(); ++entry) {
      if ((before.has_value() && entry->id >= *before) ||
          (filter.attempt.has_value() && entry->attempt != filter.attempt)) {
        continue;
      }
      if (page.entries.size() == limit) {
        page.more = true;
        break;
      }
      page.entries.push_back(*entry);
    }
    return page;
  }

  absl::StatusOr<store::ChangeResult> change(const store::OperatorChange& change) override {
    if (const absl::Status status = enter("change"); !status.ok()) {
      return status;
    }
    const std::lock_guard lock(memory_.mutex);
    store::ChangeResult result;
    const auto found = memory_.records.find(change.seen.identity);
    if (found != memory_.records.end()) {
      result.found = found->second;
      result.found->response.reset();
    }
    result.outcome = store::judgeChange(change.action, change.seen.attempt, result.found);
    if (result.outcome == store::ChangeOutcome::Done && !change.dry_run) {
      apply(change.action, change.seen.identity, memory_.records);
      store::AuditEntry entry;
      entry.id = static_cast<int64_t>(memory_.audit.size()) + 1;
      entry.actor = change.actor;
      entry.action = store::name(store::auditAction(change.action));
      entry.identity = change.seen.identity;
      entry.attempt = change.seen.attempt;
      entry.records = 1;
      entry.detail = change.reason;
      memory_.audit.push_back(entry);
    }
    return result;
  }

  absl::StatusOr<store::PurgeResult> purge(const store::Purge& purge, uint32_t limit) override {
    if (const absl::Status status = enter("purge"); !status.ok()) {
      return status;
    }
    const std::lock_guard lock(memory_.mutex);
    store::PurgeResult result;
    for (const auto& [identity, record] : memory_.records) {
      result.records += identity.tenant == purge.tenant && result.records < limit ? 1 : 0;
    }
    return result;
  }

  absl::StatusOr<store::Summary> summary() override {
    if (const absl::Status status = enter("summary"); !status.ok()) {
      return status;
    }
    return store::Summary();
  }

  absl::StatusOr<std::vector<store::UnsettledUse>> unsettled() override {
    return std::vector<store::UnsettledUse>();
  }

  absl::StatusOr<std::vector<store::DueRecord>> takeDue(const store::OperationSet& /*operations*/,
                                                        std::chrono::milliseconds /*hold*/,
                                                        uint32_t /*limit*/) override {
    return std::vector<store::DueRecord>();
  }

private:
  absl::Status enter(const std::string& method) {
    std::function<absl::Status()> before;
    {
      const std::lock_guard lock(memory_.mutex);
      memory_.calls.push_back(method);
      before = memory_.before_call;
    }
    return before == nullptr ? absl::OkStatus() : before();
  }

  OperatorMemory& memory_;
};

}  // namespace

OperatorMemory& operatorMemory() {
  static OperatorMemory memory;
  return memory;
}

void resetOperatorMemory() {
  OperatorMemory& memory = operatorMemory();
  const std::lock_guard lock(memory.mutex);
  memory.records.clear();
  memory.audit.clear();
  memory.calls.clear();
  memory.opened = 0;
  memory.open_error = absl::OkStatus();
  memory.before_call = nullptr;
}

std::unique_ptr<store::OperatorStore> makeMemoryOperatorStore(OperatorMemory& memory) {
  return std::make_unique<MemoryOperatorStore>(memory);
}

}  // namespace idempotency::test

namespace idempotency::store {

absl::StatusOr<std::unique_ptr<OperatorStore>> openOperatorStore(const OperatorAccess& /*access*/) {
  test::OperatorMemory& memory = test::operatorMemory();
  const std::lock_guard lock(memory.mutex);
  ++memory.opened;
  if (!memory.open_error.ok()) {
    return memory.open_error;
  }
  return test::makeMemoryOperatorStore(memory);
}

}  // namespace idempotency::store
