#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "test/host/execution_log.h"
#include "test/support/fake_envoy.h"

namespace idempotency::test {

// What happens to a request once the filter lets it go on.
enum class UpstreamFate : uint8_t {
  Answers,         // 200, stored.
  Declines,        // 503: the next request may run.
  Forbids,         // 401: as if it had never come.
  TimesOut,        // It ran, and Envoy gives up waiting.
  NotReached,      // No connection: it did not run.
  BreaksOff,       // Half an answer, then a reset.
  AnswersAtLength  // More than is stored.
};

// One client, one request, one stream, and its upstream, moved a step at a time by its worker.
class Session {
public:
  struct Plan {
    std::string key;
    std::string body;
    UpstreamFate fate = UpstreamFate::Answers;
    int upstream_steps = 0;   // How long the upstream takes.
    int patience_steps = -1;  // When the client leaves; below 0: never.
  };

  Session(std::shared_ptr<fake::Config> config, const fake::Route& route, ExecutionLog& log,
          Plan plan);
  ~Session();

  // True when it is over.
  bool step();
  // The status that the client got; 0: it left before.
  uint32_t status() const { return status_; }

private:
  enum class Phase : uint8_t { New, Held, Upstream, Answering, Over };
  void begin();
  void reachUpstream();
  void respond();
  void leave();
  void endExecution(ExecutionLog::End end);
  void setDetails(const std::string& details, uint64_t attempts);

  const std::shared_ptr<fake::Config> config_;  // Lives as long as the stream.
  ExecutionLog& log_;
  Plan plan_;
  Phase phase_ = Phase::New;
  uint64_t execution_ = 0;
  uint32_t status_ = 0;
  std::unique_ptr<fake::Stream> stream_;
};

}  // namespace idempotency::test
