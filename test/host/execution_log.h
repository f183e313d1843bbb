#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
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

  // Whether the next request may run: nothing did, or what did is known to leave no result.
  bool isFree(const std::string& key) const;
  // Tells for which keys a second run is allowed, since the lease of the first one ran out and its
  // policy says RETRY. For one thread.
  void excuseWhere(std::function<bool(const std::string& key)> excused) {
    excused_ = std::move(excused);
  }

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
  std::function<bool(const std::string&)> excused_ = [](const std::string&) { return false; };
  std::vector<std::string> violations_;
};

}  // namespace idempotency::test
