#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace idempotency::test {

// What the upstream of a host did, and the promise that it checks: a key runs again only after an
// attempt that is known to leave no result. Any thread.
class ExecutionLog {
public:
  // How an execution ended for whoever may come after it.
  enum class End : uint8_t {
    Retryable,  // The next request may run.
    Final,      // It ran, or may have: nobody runs again.
  };

  // The request reached the upstream. The execution's number.
  uint64_t begin(const std::string& key, const std::string& request_body);
  void end(const std::string& key, uint64_t execution, End end);

  // A client got a replay: it must be the answer of an execution of this very request.
  void checkReplay(const std::string& key, const std::string& request_body,
                   const std::string& response_body);

  static std::string answerOf(uint64_t execution);
  uint64_t executions() const;
  std::vector<std::string> violations() const;

private:
  struct Execution {
    uint64_t number = 0;
    std::string request_body;
    std::optional<End> end;
  };

  mutable std::mutex mutex_;
  std::map<std::string, std::vector<Execution>> executions_;  // Guarded by mutex_, as the rest.
  uint64_t count_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace idempotency::test
