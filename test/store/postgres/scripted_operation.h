#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "source/store/postgres/operations/operation.h"

namespace idempotency::postgres {

// What became of a ScriptedOperation; outlives it.
struct OperationLog {
  int results = 0;
  int rows = -1;  // Of the last result.
  int lost = 0;
  int refused = 0;
  int deadlines = 0;
  std::string reason;
  bool destroyed = false;
};

// An operation of which a test says everything.
class ScriptedOperation : public Operation {
public:
  struct Script {
    std::string key = {};
    Lane lane = Lane::Write;
    Group group = Group::None;
    size_t bytes = 0;
    size_t statements = 1;
    store::Deadline deadline = store::Deadline::max();
    protocol::Attempt attempt = 0;
    Next after_results = Next::Finished;
    Next after_loss = Next::Finished;
    std::optional<Orphan> orphan = {};
    bool finished = false;
  };

  explicit ScriptedOperation(Script script, std::shared_ptr<OperationLog> log = nullptr)
      : Operation(script.deadline, {}),
        script_(std::move(script)),
        identity_{"t", "o", script_.key},
        log_(log != nullptr ? std::move(log) : std::make_shared<OperationLog>()) {}
  ~ScriptedOperation() override { log_->destroyed = true; }

  Lane lane() const override { return script_.lane; }
  const protocol::Identity* identity() const override {
    return script_.key.empty() ? nullptr : &identity_;
  }
  size_t bytes() const override { return script_.bytes; }
  size_t statementCount() const override { return script_.statements; }
  StatementId bind(size_t, Parameters& parameters) const override {
    parameters.bytes(identity_.key);
    return StatementId::Fail;
  }
  Group group() const override { return script_.group; }
  void bindMember(Arrays& arrays) const override {
    if (script_.group == Group::Responses) {
      arrays.int64(0, script_.attempt);
      arrays.int64(1, script_.attempt * 100);
    } else {
      arrays.bytes(0, identity_.key);
    }
  }
  protocol::Attempt memberAttempt() const override { return script_.attempt; }
  Next onResults(std::span<const Rows> results) override {
    ++log_->results;
    log_->rows = results.back().count();
    return script_.after_results;
  }
  Next onLost(const std::string& reason) override {
    ++log_->lost;
    log_->reason = reason;
    return script_.after_loss;
  }
  void onRefused(const std::string& reason) override {
    ++log_->refused;
    log_->reason = reason;
  }
  void onDeadline(bool) override { ++log_->deadlines; }
  bool finished() const override { return script_.finished; }
  std::optional<Orphan> orphan() const override { return script_.orphan; }

  const std::string& key() const { return script_.key; }

private:
  const Script script_;
  const protocol::Identity identity_;
  const std::shared_ptr<OperationLog> log_;
};

inline OperationPtr scripted(ScriptedOperation::Script script,
                             std::shared_ptr<OperationLog> log = nullptr) {
  return std::make_unique<ScriptedOperation>(std::move(script), std::move(log));
}

inline std::string keyOf(const OperationPtr& operation) {
  return static_cast<const ScriptedOperation&>(*operation).key();
}

inline std::vector<std::string> keysOf(const std::vector<OperationPtr>& operations) {
  std::vector<std::string> keys;
  for (const OperationPtr& operation : operations) {
    keys.push_back(keyOf(operation));
  }
  return keys;
}

// A result as the server would give it, in the binary format.
inline PqResult makeResult(const std::vector<std::vector<std::string>>& rows, int columns) {
  PqResult result(PQmakeEmptyPGresult(nullptr, PGRES_TUPLES_OK));
  std::vector<PGresAttDesc> descriptions(static_cast<size_t>(columns));
  for (PGresAttDesc& description : descriptions) {
    description.name = const_cast<char*>("c");
    description.format = 1;
  }
  PQsetResultAttrs(result.get(), columns, descriptions.data());
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t column = 0; column < rows[row].size(); ++column) {
      PQsetvalue(result.get(), static_cast<int>(row), static_cast<int>(column),
                 const_cast<char*>(rows[row][column].data()),
                 static_cast<int>(rows[row][column].size()));
    }
  }
  return result;
}

}  // namespace idempotency::postgres
