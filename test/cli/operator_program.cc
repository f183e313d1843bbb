#include "test/cli/operator_program.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <utility>

#include "gtest/gtest.h"
#include <absl/status/statusor.h>

#include "source/protocol/key_hash.h"
#include "source/store/operator_rules.h"

namespace idempotency::test {
namespace {

template <typename Value>
bool matches(const std::optional<Value>& wanted, const Value& value) {
  return !wanted.has_value() || *wanted == value;
}

bool matches(const store::RecordFilter& filter, const protocol::Identity& identity,
             const store::Record& record) {
  const auto& states = filter.states;
  return (states.empty() || std::count(states.begin(), states.end(), record.state) > 0) &&
         matches(filter.tenant, identity.tenant) && matches(filter.operation, identity.operation) &&
         matches(filter.key, identity.key) &&
         matches(filter.key_hash, protocol::keyHash(identity)) &&
         matches(filter.attempt, record.attempt) && matches(filter.error, record.last_error) &&
         (!filter.min_age.has_value() || record.claim_age >= *filter.min_age) &&
         (!filter.dead_letters_only || record.dead_letter);
}

bool matches(const store::AuditFilter& filter, const store::AuditEntry& entry) {
  const protocol::Identity identity = entry.identity.value_or(protocol::Identity());
  return matches(filter.tenant, identity.tenant) && matches(filter.operation, identity.operation) &&
         matches(filter.key, identity.key) &&
         (!filter.attempt.has_value() || entry.attempt == filter.attempt);
}

class StoreInMemory : public store::OperatorStore {
public:
  absl::StatusOr<store::RecordPage> list(const store::RecordFilter& filter,
                                         const std::optional<protocol::Identity>& after,
                                         uint32_t limit) override {
    world_.filters.push_back(filter);
    if (!world_.failure.ok()) {
      return world_.failure;
    }
    store::RecordPage page;
    for (const auto& [identity, record] : world_.records) {
      if ((after.has_value() && identity <= *after) || !matches(filter, identity, record)) {
        continue;
      }
      if (page.records.size() == limit) {
        page.more = true;
        break;
      }
      page.records.push_back({identity, record});
      page.records.back().record.response.reset();
    }
    return page;
  }

  absl::StatusOr<std::optional<store::ListedRecord>> find(
      const protocol::Identity& identity) override {
    if (!world_.failure.ok()) {
      return world_.failure;
    }
    const auto found = world_.records.find(identity);
    if (found == world_.records.end()) {
      return std::optional<store::ListedRecord>();
    }
    return store::ListedRecord{.identity = identity, .record = found->second};
  }

  absl::StatusOr<store::AuditPage> audit(const store::AuditFilter& filter,
                                         std::optional<int64_t> before, uint32_t limit) override {
    if (!world_.failure.ok()) {
      return world_.failure;
    }
    store::AuditPage page;
    for (const store::AuditEntry& entry : world_.audit) {
      if ((before.has_value() && entry.id >= *before) || !matches(filter, entry)) {
        continue;
      }
      if (page.entries.size() == limit) {
        page.more = true;
        break;
      }
      page.entries.push_back(entry);
    }
    return page;
  }

  absl::StatusOr<store::ChangeResult> change(const store::OperatorChange& change) override {
    world_.changes.push_back(change);
    if (!world_.failure.ok()) {
      return world_.failure;
    }
    const auto found = world_.records.find(change.seen.identity);
    store::ChangeResult result;
    if (found != world_.records.end()) {
      result.found = found->second;
    }
    result.outcome = store::judgeChange(change.action, change.seen.attempt, result.found);
    return result;
  }

  absl::StatusOr<store::PurgeResult> purge(const store::Purge& purge, uint32_t limit) override {
    world_.purges.push_back(purge);
    if (!world_.failure.ok()) {
      return world_.failure;
    }
    store::PurgeResult result;
    for (auto row = world_.records.begin(); row != world_.records.end();) {
      if (row->first.tenant != purge.tenant) {
        ++row;
        continue;
      }
      if (result.records == limit) {
        result.more = true;
        break;
      }
      ++result.records;
      result.unsettled += row->second.state == protocol::RecordState::Unknown ? 1 : 0;
      row = purge.dry_run ? std::next(row) : world_.records.erase(row);
    }
    return result;
  }

  absl::StatusOr<store::Summary> summary() override {
    return world_.failure.ok() ? absl::StatusOr<store::Summary>(world_.summary) : world_.failure;
  }

  absl::StatusOr<std::vector<store::UnsettledUse>> unsettled() override {
    return world_.summary.unsettled;
  }

  absl::StatusOr<std::vector<store::DueRecord>> takeDue(const store::OperationSet& /*operations*/,
                                                        std::chrono::milliseconds /*hold*/,
                                                        uint32_t /*limit*/) override {
    return std::vector<store::DueRecord>();
  }

private:
  OperatorWorld& world_ = operatorWorld();
};

}  // namespace

OperatorWorld& operatorWorld() {
  static OperatorWorld world;
  return world;
}

void resetOperatorWorld() {
  operatorWorld() = OperatorWorld();
}

store::Record recordIn(protocol::RecordState state, protocol::Attempt attempt) {
  store::Record record;
  record.state = state;
  record.attempt = attempt;
  record.fingerprint = "\x02\xab";
  record.recovery_point = "started";
  record.lease_alive = state == protocol::RecordState::InProgress;
  record.lease_left = std::chrono::seconds(12);
  record.claim_age = std::chrono::minutes(5);
  record.created_at = store::StoreTime(std::chrono::milliseconds(1'700'000'000'000));
  record.expires_at = store::StoreTime(std::chrono::milliseconds(1'700'086'400'000));
  record.life_left = std::chrono::hours(20);
  return record;
}

Ran runProgram(std::span<const cli::Command> commands, const std::vector<std::string>& words,
               const std::optional<std::string>& typed) {
  const std::vector<std::string_view> views(words.begin(), words.end());
  std::ostringstream out;
  std::ostringstream err;
  Ran ran;
  cli::Console console = {.out = out, .err = err, .ask = [&](std::string_view question) {
                            ran.question = question;
                            return typed;
                          }};
  ran.code = static_cast<int>(cli::runCommandLine(commands, views, console));
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

std::string temporaryFile(std::string_view name, std::string_view content) {
  std::string path = testing::TempDir() + "/" + std::string(name);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

}  // namespace idempotency::test

namespace idempotency::store {

absl::StatusOr<std::unique_ptr<OperatorStore>> openOperatorStore(const OperatorAccess& access) {
  test::OperatorWorld& world = test::operatorWorld();
  world.opened.push_back(access);
  if (!world.open_failure.ok()) {
    return world.open_failure;
  }
  return std::make_unique<test::StoreInMemory>();
}

}  // namespace idempotency::store
