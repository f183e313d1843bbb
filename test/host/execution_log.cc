#include "test/host/execution_log.h"

#include <algorithm>
#include <fmt/format.h>

namespace idempotency::test {

uint64_t ExecutionLog::begin(const std::string& key, const std::string& request_body) {
  const std::lock_guard lock(mutex_);
  std::vector<Execution>& earlier = executions_[key];
  const uint64_t number = ++count_;
  for (const Execution& execution : earlier) {
    if (execution.end != End::Retryable && !excused_(key)) {
      violations_.push_back(fmt::format("{}: execution {} although {} {}", key, number,
                                        execution.number,
                                        execution.end.has_value() ? "may have run" : "runs"));
    }
  }
  earlier.push_back({number, request_body, std::nullopt});
  return number;
}

void ExecutionLog::end(const std::string& key, uint64_t number, End end) {
  const std::lock_guard lock(mutex_);
  for (Execution& execution : executions_[key]) {
    if (execution.number == number) {
      execution.end = end;
    }
  }
}

void ExecutionLog::checkReplay(const std::string& key, const std::string& request_body,
                               const std::string& response_body) {
  const std::lock_guard lock(mutex_);
  for (const Execution& execution : executions_[key]) {
    if (answerOf(execution.number) == response_body && execution.request_body == request_body &&
        execution.end == End::Final) {
      return;
    }
  }
  violations_.push_back(fmt::format("{}: a replay of '{}' to '{}' that never was an answer to it",
                                    key, response_body, request_body));
}

bool ExecutionLog::isFree(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = executions_.find(key);
  return found == executions_.end() ||
         std::all_of(found->second.begin(), found->second.end(),
                     [](const Execution& execution) { return execution.end == End::Retryable; });
}

std::string ExecutionLog::answerOf(uint64_t execution) {
  return fmt::format("answer of execution {}", execution);
}

uint64_t ExecutionLog::executions() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::vector<std::string> ExecutionLog::violations() const {
  const std::lock_guard lock(mutex_);
  return violations_;
}

}  // namespace idempotency::test
