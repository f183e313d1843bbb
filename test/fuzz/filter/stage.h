#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "test/fuzz/filter/exchange.h"
#include "test/fuzz/filter/ledger.h"
#include "test/fuzz/filter/plans.h"
#include "test/support/fake_envoy.h"
#include "test/support/opened_stores.h"
#include "test/support/stepped_store.h"

namespace idempotency::fuzz {

// The whole module on a fake Envoy, stores whose every step is decided here, clocks that go here, a
// few streams at a time, and another Envoy that maintains the same database. One thread; nothing
// happens by itself.
class Stage {
public:
  static constexpr size_t Slots = 4;
  using Time = std::chrono::milliseconds;

  Stage(size_t config, fake::DestroyTime destroy_time);
  ~Stage();
  Stage(const Stage&) = delete;

  // --- Streams
  // A new stream whose request has just begun; null: the slot is taken.
  Exchange* start(size_t slot, size_t route, size_t key, Quirk quirk);
  // The stream in a slot; null: none.
  Exchange* at(size_t slot) const { return slots_.at(slot).get(); }
  // Envoy follows a redirect: the request comes again, perhaps by another route, perhaps to the
  // config that is there now.
  void redirect(size_t slot, size_t route, bool new_config);
  // Frees the slots of streams that are over. After each event.
  void tidy();

  // --- Stores. What is not there is not stepped.
  void stepStore(size_t store, size_t place, test::StepFate fate);
  void stepOldest(test::StepFate fate);
  void flushStores();
  void answerLate();
  void expire();

  // --- Events and timers
  void deliverAll();
  void runTimers();
  // Stores and streams go on until nobody has anything to do at this time.
  void settle();

  // --- Time
  void passTime(Time time);
  void jumpStoreClock(Time time);

  // --- Others
  enum class Job : uint8_t { Sweep, Reap, SoftReap };
  void maintain(Job job);
  // A new config takes over; streams of the old one keep it. With the last of them its store goes,
  // if nobody else has it.
  void reload(size_t config, test::OpenedStores::LastWords last_words);

  // Nothing goes wrong any more, and all that was begun comes to its end. Then it is checked that
  // nobody is held, nothing is left, and everybody who asks again gets a final answer.
  void end();

private:
  struct Installed {
    std::shared_ptr<fake::Config> config;
    const ConfigPlan* plan = nullptr;
  };
  std::unique_ptr<Exchange> makeExchange(const Installed& installed, RequestPlan plan);
  const fake::Route* routeOf(const RoutePlan& plan);
  void open(size_t config);
  bool isCrowded(const ConfigPlan& plan, uint64_t asker) const;
  void noteSlowness(Time time);
  bool anyHeld() const;
  bool isBusy() const;
  // Time goes by until the condition holds, or so long.
  void advance(Time longest, const std::function<bool()>& condition);
  void finishStreams();
  void keepRunning();
  void answerAll();
  void checkNobodyHeld() const;
  void checkNothingLeft();
  void checkQuiet();
  void checkConfigsGo();
  void checkKey(size_t key);

  const std::shared_ptr<test::FakeDatabase> database_ = std::make_shared<test::FakeDatabase>();
  Ledger ledger_{*database_};
  std::map<const RoutePlan*, std::unique_ptr<fake::Route>> routes_;
  Installed installed_;
  std::array<std::unique_ptr<Exchange>, Slots> slots_;
  Time held_for_{0};  // By the streams of now.
  uint64_t exchanges_ = 0;
  bool harmed_ = false;    // The store did not do what it was asked for.
  bool troubled_ = false;  // That, or somebody was slow.
};

}  // namespace idempotency::fuzz
