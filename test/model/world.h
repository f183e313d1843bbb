#pragma once

#include <cstdint>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/protocol/decide.h"
#include "source/protocol/outcome.h"
#include "source/protocol/policy.h"
#include "test/model/model_store.h"
#include "test/model/mutant.h"

namespace idempotency::model {

// How often the interesting things happened: a walk that never meets them proves nothing.
struct Coverage {
  std::map<std::string, uint64_t, std::less<>> counts;
  void count(std::string_view what, std::string_view detail = {});
};

// Clients, filters, one store and one upstream, moved by random events in random order: requests
// with few keys, tenants and bodies; claims whose answer is lost; filters that crash; clients that
// leave; writes that come late, twice or never; leases that run out; Envoy's own retries; sweeper,
// reaper and reconciler. The decisions are those of the real code (decide, judgeOutcome);
// the store is the model.
//
// After each event the promise is checked:
//   1. no identity runs twice in one life of its record, unless its policy says RETRY;
//   2. a replay is the response of the record's own attempt, to the same identity and request;
//   3. a write of an attempt that does not hold the record changes nothing;
//   4. every change of a record is a legal transition;
//   5. once everything has come to rest, no record is in progress.
// A run counts unless the upstream answered it with a status that the policy calls retryable or
// released.
class World {
public:
  // The log costs more than the walk: it is kept only on demand, for a seed that broke the promise.
  World(uint64_t seed, Mutant mutant, Coverage& coverage, bool keep_log = false);

  // One random event; the first violation, if there is one.
  std::optional<std::string> step();
  // No more crashes and losses: everything in flight arrives, maintenance runs. Then rule 5 is
  // checked.
  std::optional<std::string> comeToRest();

  const std::vector<std::string>& log() const { return log_; }

private:
  // A request inside a filter.
  struct Request {
    enum class Phase : uint8_t { New, Waiting, Reclaiming, Holding, Sent, Gone };
    int id = 0;
    protocol::Identity identity;
    int body = 0;
    Phase phase = Phase::New;
    protocol::Attempt attempt = 0;
    std::optional<protocol::Reclaim> reclaim;
  };
  // A message to the upstream.
  struct Call {
    enum class Phase : uint8_t { InFlight, Executed, Dropped };
    int request = 0;
    protocol::Identity identity;
    int body = 0;
    protocol::Attempt attempt = 0;
    Phase phase = Phase::InFlight;
    ModelResponse response;
  };
  // A write on its way to the store.
  struct Write {
    protocol::Identity identity;
    protocol::Attempt attempt = 0;
    protocol::AttemptEnding ending;
    std::optional<ModelResponse> response;
    int status = 0;
  };

  // Events. Each does nothing if it does not apply.
  void newRequest();
  void askStore(Request& request);
  void sendUpstream(Request& request);
  void leaveWhileHolding(Request& request);
  void crash(Request& request);
  void execute(Call& call);
  void seeAnswer(Request& request);
  void seeLoss(Request& request);
  void seeRefusal(Request& request);
  void seeRefusalAfterRetry(Request& request);
  void deliverWrite();
  void duplicateOrLoseWrite();
  void heartbeat();
  void reconcile();

  void act(Request& request, const protocol::StoreResult& result);
  void finish(Request& request, protocol::Observation seen, const Call* call);
  void checkChanges();
  void fail(const std::string& what);
  // `text` makes the line; called only if the log is kept.
  template <typename Text>
  void note(Text text) {
    if (keep_log_) {
      log_.push_back(fmt::format("{:4} {}", store_.now, text()));
    }
  }

  protocol::RecordFacts factsOf(const ModelRecord& record, const Request& request) const;
  const protocol::Policy& policyOf(const protocol::Identity& identity) const;
  Call* callOf(const Request& request);
  Request* pickRequest(std::initializer_list<Request::Phase> phases);
  Call* pickCall(Call::Phase phase);
  bool mayStillRun(const ModelRecord& record) const;
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool chance(int percent) { return pick(100) < percent; }

  std::mt19937_64 random_;
  Mutant mutant_;
  Coverage& coverage_;
  bool keep_log_;
  ModelStore store_;
  std::map<std::string, protocol::Policy> policies_;  // By operation.
  std::map<std::string, protocol::Policy> retrying_;  // The same with RETRY, for a mutant.
  std::deque<Request> requests_;                      // Never shrinks: references stay good.
  std::deque<Call> calls_;
  std::vector<Write> writes_;
  std::map<protocol::Identity, int> runs_;  // Runs that count, in the present life of the identity.
  protocol::Attempt next_attempt_ = 1;
  int next_run_ = 1;
  std::optional<std::string> violation_;
  std::vector<std::string> log_;
};

}  // namespace idempotency::model
