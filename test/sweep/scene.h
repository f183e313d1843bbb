#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "test/host/execution_log.h"
#include "test/host/session.h"
#include "test/support/fake_envoy.h"
#include "test/support/stepped_store.h"

namespace idempotency::test {

// The whole module on a store whose every step is decided here, in a time that passes here:
// clients, upstream, another Envoy's sweeper, and what must hold in the end. One thread, nothing
// random.
//
// Time goes by in ticks. In each the store takes one step, every session too, and the timers run.
class Scene {
public:
  static constexpr std::chrono::milliseconds Tick{25};
  static constexpr int TicksOfLease = 40;  // A second, the shortest there is.

  struct Options {
    std::string policy = {};   // More fields of the route's policy, with a comma before each.
    bool cache = false;        // Replays come from memory where they can.
    bool retry_lease = false;  // The policy lets a request run again whose lease ran out.
  };

  explicit Scene(Options options);
  ~Scene();
  Scene(const Scene&) = delete;

  // What becomes of a step of the store; steps are numbered from 1.
  std::function<StepFate(uint64_t number)> fate = [](uint64_t) { return StepFate::CarriedOut; };

  // At the end of each tick.
  std::function<void()> on_tick = [] {};

  void start(const Session::Plan& plan);
  void tick();
  void ticks(int count);
  // Until every client has gone or has its answer. One that is held for ever is a violation.
  void finishSessions();
  // Every client goes.
  void leaveAll();
  // Every client goes; Envoy drops the config, and with it the store, which does what waits as its
  // fate wants; a new config takes over.
  void reload();
  void answerLate();

  // Nothing goes wrong any more, and what waits gets its time. Then it is checked that nothing ran
  // twice, nobody is held, nothing is left over, no claim stays for ever, nothing acknowledged is
  // lost, and whoever asks again gets a final answer.
  // `harmless`: also that every key that never ran is free. Only a process that died, or a store
  // that was away for longer than a lease, excuses one that is not.
  void end(bool harmless);

  uint64_t steps() const { return steps_; }
  std::vector<std::string> violations() const;
  // What the clients got, in the order of their end.
  const std::vector<uint32_t>& statuses() const { return statuses_; }

private:
  struct Acknowledged {
    Session::Plan plan;
    uint64_t execution;
  };

  void open();
  void stepStore();
  void noteLeases();
  void moveSessions();
  void require(bool condition, const std::string& what);
  void checkNothingLeft();
  void checkAcknowledged(const Acknowledged& promise);
  void checkKey(const std::string& key, const std::set<std::string>& bodies, bool harmless);
  std::optional<store::Record> find(const std::string& key) const;

  const Options options_;
  const std::shared_ptr<FakeDatabase> database_ = std::make_shared<FakeDatabase>();
  std::unique_ptr<fake::Route> route_;
  std::shared_ptr<fake::Config> config_;
  ExecutionLog log_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::map<std::string, std::set<std::string>> bodies_;  // By key.
  std::set<std::string> lease_ran_out_;                  // Keys.
  std::vector<Acknowledged> acknowledged_;
  std::vector<uint32_t> statuses_;
  std::vector<std::string> violations_;
  uint64_t steps_ = 0;
  uint64_t ticks_ = 0;
};

}  // namespace idempotency::test
