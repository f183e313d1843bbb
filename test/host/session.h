#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "test/host/execution_log.h"
#include "test/support/fake_envoy.h"
#include "test/support/private_listener.h"

namespace idempotency::test {

// What happens to a request once the filter lets it go on.
enum class UpstreamFate : uint8_t {
  Answers,          // 200, stored.
  Declines,         // 503: the next request may run.
  Forbids,          // 401: as if it had never come.
  TimesOut,         // It ran, and Envoy gives up waiting.
  NotReached,       // No connection: it did not run.
  BreaksOff,        // Half an answer, then a reset.
  AnswersAtLength,  // More than is stored.
  Redirects,        // Envoy follows it to another upstream, which answers.
  RedirectsAway,    // Envoy follows it, and a filter before ours answers.
  AnswersInTwo,     // 200 in two parts, stored.
};

// One client, one request, one stream, and its upstream, moved a step at a time by its worker. If
// the request runs detached, its upstream is that of another session: the run's, whose client is
// the module's own connection.
class Session {
public:
  struct Plan {
    std::string key;
    std::string body;
    UpstreamFate fate = UpstreamFate::Answers;
    int upstream_steps = 0;   // How long the upstream takes.
    int patience_steps = -1;  // When the client leaves; below 0: never.
    int cut_steps = -1;       // When Envoy itself answers in place of all others; below 0: never.
  };

  Session(std::shared_ptr<fake::Config> config, const fake::Route& route, ExecutionLog& log,
          Plan plan);
  // A run: the plan's key and body are those of the request.
  Session(std::shared_ptr<fake::Config> config, const fake::Route& route, ExecutionLog& log,
          Plan plan, std::unique_ptr<PrivateListener::Run> connection);
  ~Session();

  // True when it is over.
  bool step();
  bool over() const { return phase_ == Phase::Over; }
  // The client goes, if it has no answer yet.
  void leave();
  // The client's connection is lost while its answer is on the way.
  void loseClient();
  // The upstream's connection is lost before the end of its answer.
  void loseUpstream();
  // A time-out of Envoy's own, which may come at any time.
  void cut();

  enum class Phase : uint8_t { New, Held, Upstream, MidAnswer, Answering, Over };
  Phase phase() const { return phase_; }

  const Plan& plan() const { return plan_; }
  // The status that the client got; 0: it left before.
  uint32_t status() const { return status_; }
  // The client got an answer of the upstream's, and no word that it is not stored.
  bool acknowledged() const { return acknowledged_; }
  bool replayed() const { return replayed_; }
  uint64_t execution() const { return execution_; }  // 0: the upstream was not reached.

private:
  void begin();
  void beginRun();
  fake::FieldList requestHeaders() const;
  void onReply();
  void onAnswered();
  void reachUpstream();
  void respond();
  // The second half of an answer that comes in two.
  void respondFurther();
  void redirect();
  void mayHaveRun();
  void endExecution(ExecutionLog::End end);
  void setDetails(const std::string& details, uint64_t attempts);

  const std::shared_ptr<fake::Config> config_;  // Lives as long as the stream.
  const fake::Route& route_;
  ExecutionLog& log_;
  Plan plan_;
  const std::unique_ptr<PrivateListener::Run> connection_;  // Of a run. It ends after its stream.
  Phase phase_ = Phase::New;
  uint64_t execution_ = 0;
  uint32_t status_ = 0;
  bool acknowledged_ = false;
  bool replayed_ = false;
  std::unique_ptr<fake::Stream> stream_;
};

}  // namespace idempotency::test
