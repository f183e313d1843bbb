// How an input ends: all that was begun comes to its end, and then it must hold that nothing is
// left.
#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "test/fuzz/filter/stage.h"
#include "test/support/manual_time.h"
#include "test/support/opened_stores.h"

namespace idempotency::fuzz {
namespace {

using test::ManualTime;
using test::OpenedStores;

// Longer than any time of any policy, and of the filter itself, together.
constexpr Stage::Time LongestHold{10'000};
// Until a redirect counts as lost and that is written.
constexpr Stage::Time LongestMemory{8'000};

void checkZero(const char* value) {
  if (const int64_t is = fake::process().values[value]; is != 0) {
    violated(fmt::format("{} is {} when all is over", value, is));
  }
}

bool storesHold() {
  const auto& stores = OpenedStores::all();
  return std::any_of(stores.begin(), stores.end(),
                     [](const test::SteppedStore* store) { return store->held() > 0; });
}

}  // namespace

void Stage::advance(Time longest, const std::function<bool()>& condition) {
  const store::Deadline end = ManualTime::now() + longest;
  settle();
  while (!condition() && ManualTime::now() < end) {
    store::Deadline next = std::min(end, ManualTime::runTimers());
    for (const test::SteppedStore* store : OpenedStores::all()) {
      next = std::min(next, store->earliestDeadline());
    }
    const Time step = std::chrono::ceil<Time>(next - ManualTime::now());
    passTime(std::max(step, Time(1)));
    expire();
    ManualTime::runTimers();
    settle();
  }
}

void Stage::end() {
  answerLate();
  finishStreams();
  keepRunning();
  answerAll();
  checkNothingLeft();
  troubled_ = ledger_.jumped();
  for (size_t key = 0; key < KeyCount; ++key) {
    if (ledger_.wasAsked(key)) {
      checkKey(key);
    }
  }
  checkNothingLeft();
  checkConfigsGo();
  for (const char* value :
       {"hook_exception", "store.queued", "cache.bytes", "cache.entries", "leader"}) {
    checkZero(value);
  }
}

// All streams are over, and with their configs all stores but the last one have gone. It goes with
// its last config.
void Stage::checkConfigsGo() {
  const auto& stores = OpenedStores::all();
  reload(static_cast<size_t>(installed_.plan - configPlans().data()),
         OpenedStores::LastWords::CarriedOut);
  if (stores.size() != 1) {
    violated(fmt::format("there are {} stores for one config", stores.size()));
  }
  installed_.config.reset();
  if (!stores.empty()) {
    violated("a store outlives all configs");
  }
}

void Stage::finishStreams() {
  for (const auto& slot : slots_) {
    if (slot != nullptr && slot->requestOpen()) {
      slot->sendBody("", true);
    }
  }
  advance(LongestHold, [this] { return !anyHeld(); });
  checkNobodyHeld();
}

// Whoever runs for longer than a lease keeps his claim.
void Stage::keepRunning() {
  if (ledger_.hasClaim()) {
    advance(Lease + Lease / 2, [] { return false; });
    ledger_.checkLeases();
  }
}

void Stage::answerAll() {
  for (const auto& slot : slots_) {
    if (slot != nullptr && slot->upstreamOpen() && !slot->answerBegun()) {
      slot->answerHeaders(upstreamHeads().front(), false);
    }
    if (slot != nullptr && slot->upstreamOpen()) {
      slot->answerBody(0, true);
    }
  }
  advance(LongestHold, [this] { return !anyHeld(); });
  checkNobodyHeld();
  tidy();
  if (std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) { return slot != nullptr; })) {
    violated("a stream does not end, though all has been said");
  }
}

void Stage::checkNobodyHeld() const {
  for (const auto& slot : slots_) {
    if (slot != nullptr && slot->isHeld()) {
      violated(fmt::format("request {} is held for ever", slot->place().number));
    }
  }
}

void Stage::checkNothingLeft() {
  advance(LongestMemory, [this] { return !ledger_.hasClaim() && !storesHold(); });
  checkQuiet();
  for (const char* gauge : {"in_flight", "held_bytes", "waiting", "settling"}) {
    checkZero(gauge);
  }
  if (!harmed_ && ledger_.hasClaim()) {
    violated("a claim stays without an owner");
  }
  maintain(Job::Sweep);
  if (ledger_.hasClaim()) {
    violated("a claim stays for ever");
  }
}

// What was in doubt is asked again within a lease, and a redirect that nobody came for is written
// down, also where its claim was taken over meanwhile. Then nobody asks the store any more, but for
// the maintainer, which always does. Gauges that are set now and then are right afterwards.
void Stage::checkQuiet() {
  advance(LongestMemory, [] { return false; });
  const uint64_t asked = OpenedStores::all().back()->asked();
  advance(Lease + Time(100), [] { return false; });
  if (!installed_.plan->maintains && OpenedStores::all().back()->asked() != asked) {
    violated("somebody still asks the store when all is over");
  }
}

// A client asks once more, and all goes well.
void Stage::checkKey(size_t key) {
  const bool free = ledger_.isFree(key);
  const uint64_t before = ledger_.executions();
  Exchange* const last = start(0, 0, key, Quirk::None);
  last->sendBody(requestPiece(0), true);
  finishStreams();
  const bool ran = ledger_.executions() > before;
  const bool reused = last->isOver() && last->status() == 422;
  answerAll();
  if (free && !ran && !reused && !harmed_ && !ledger_.jumped() &&
      installed_.plan->most_in_flight == 0) {
    violated(fmt::format("{}: nothing ever ran, and a new request does not", keyName(key)));
  }
}

}  // namespace idempotency::fuzz
