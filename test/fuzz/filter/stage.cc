#include "test/fuzz/filter/stage.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <utility>
#include <vector>

#include "test/support/manual_random.h"
#include "test/support/manual_time.h"
#include "test/support/opened_stores.h"

namespace idempotency::fuzz {
namespace {

using test::ManualRandom;
using test::ManualTime;
using test::OpenedStores;
using test::StepFate;
using test::SteppedStore;

// More rounds than any order of events needs: then two run in a circle.
constexpr int MostRounds = 1000;

}  // namespace

Stage::Stage(size_t config, fake::DestroyTime destroy_time) {
  ManualTime::restart();
  ManualRandom::restart();
  ManualRandom::onAttempt([this](protocol::Attempt attempt) { ledger_.onAttempt(attempt); });
  fake::resetProcess();
  fake::process().log_level = envoy::raw::LogLevel::Error;
  fake::process().destroy_time = destroy_time;
  OpenedStores::use(database_, [this] { ledger_.look(); });
  open(config);
}

Stage::~Stage() {
  for (auto& slot : slots_) {
    slot.reset();
  }
  installed_.config.reset();
  OpenedStores::use(nullptr);
  ManualRandom::onAttempt(nullptr);
  fake::resetProcess();  // What an input leaves behind would look like a leak.
}

void Stage::open(size_t config) {
  installed_.plan = &configPlans()[config];
  installed_.config = std::make_shared<fake::Config>("idempotency", configJson(*installed_.plan));
  if (!installed_.config->loaded()) {
    violated("a good config is refused");
  }
}

// --- Streams

const fake::Route* Stage::routeOf(const RoutePlan& plan) {
  if (plan.off) {
    return nullptr;
  }
  std::unique_ptr<fake::Route>& route = routes_[&plan];
  if (route == nullptr) {
    route = std::make_unique<fake::Route>("idempotency", routeJson(plan));
    if (!route->loaded()) {
      violated(fmt::format("the good route {} is refused", plan.name));
    }
  }
  return route.get();
}

std::unique_ptr<Exchange> Stage::makeExchange(const Installed& installed, RequestPlan plan) {
  Exchange::Place place;
  place.number = ++exchanges_;
  place.config = installed.config;
  place.config_plan = installed.plan;
  place.route = routeOf(*plan.route);
  place.ledger = &ledger_;
  place.came = database_->now();
  place.troubled = &troubled_;
  place.crowded = [this, config = installed.plan, number = place.number] {
    return isCrowded(*config, number);
  };
  return std::make_unique<Exchange>(std::move(place), std::move(plan));
}

Exchange* Stage::start(size_t slot, size_t route, size_t key, Quirk quirk) {
  if (slots_.at(slot) != nullptr) {
    return nullptr;
  }
  slots_.at(slot) = makeExchange(installed_, planRequest(routePlans()[route], key, quirk));
  slots_.at(slot)->begin();
  return slots_.at(slot).get();
}

void Stage::redirect(size_t slot, size_t route, bool new_config) {
  Exchange* const old = at(slot);
  if (old == nullptr) {
    return;
  }
  const std::optional<Exchange::Redirect> again = old->followRedirect();
  if (!again.has_value()) {
    return;
  }
  RequestPlan plan = planRequest(routePlans()[route], old->plan().key, old->plan().quirk);
  plan.headers = again->headers;
  const Installed installed =
      new_config ? installed_ : Installed{old->place().config, old->place().config_plan};
  std::unique_ptr<Exchange> next = makeExchange(installed, std::move(plan));
  next->beginAgain(*again);
  slots_.at(slot) = std::move(next);  // With the old one its config may go.
}

bool Stage::isCrowded(const ConfigPlan& plan, uint64_t asker) const {
  const auto others = std::count_if(slots_.begin(), slots_.end(), [&](const auto& slot) {
    return slot != nullptr && !slot->isOver() && slot->place().config_plan == &plan &&
           slot->place().number != asker;
  });
  return plan.most_in_flight > 0 && static_cast<size_t>(others) >= plan.most_in_flight;
}

void Stage::tidy() {
  for (auto& slot : slots_) {
    if (slot != nullptr && slot->isOver()) {
      slot.reset();
    }
  }
  harmed_ = harmed_ || OpenedStores::cutShort() > 0;
  troubled_ = troubled_ || harmed_;
  ledger_.look();
}

// --- Stores

void Stage::stepStore(size_t store, size_t place, StepFate fate) {
  const auto& stores = OpenedStores::all();
  if (store >= stores.size() || stores[store]->waiting() == 0) {
    return;
  }
  harmed_ = harmed_ || fate != StepFate::CarriedOut;
  troubled_ = troubled_ || harmed_;
  stores[store]->step(fate, place % stores[store]->waiting());
  ledger_.look();
}

void Stage::stepOldest(StepFate fate) {
  const auto& stores = OpenedStores::all();
  const auto busy = std::find_if(stores.begin(), stores.end(),
                                 [](const SteppedStore* store) { return store->waiting() > 0; });
  if (busy != stores.end()) {
    stepStore(static_cast<size_t>(busy - stores.begin()), 0, fate);
  }
}

void Stage::flushStores() {
  int steps = 0;
  for (size_t store = 0; store < OpenedStores::all().size(); ++store) {
    while (OpenedStores::all()[store]->waiting() > 0) {
      stepStore(store, 0, StepFate::CarriedOut);
      if (++steps > MostRounds) {
        violated("the store is asked without end");
      }
    }
  }
}

void Stage::answerLate() {
  for (SteppedStore* store : OpenedStores::all()) {
    store->answerLate();
  }
}

void Stage::expire() {
  for (SteppedStore* store : OpenedStores::all()) {
    harmed_ = store->expire() > 0 || harmed_;
  }
  troubled_ = troubled_ || harmed_;
}

// --- Events and timers

void Stage::deliverAll() {
  for (const auto& slot : slots_) {
    if (slot != nullptr) {
      slot->deliver();
    }
  }
}

void Stage::runTimers() {
  ManualTime::runTimers();
}

bool Stage::isBusy() const {
  const auto& stores = OpenedStores::all();
  return std::any_of(stores.begin(), stores.end(),
                     [](const SteppedStore* store) { return store->waiting() > 0; }) ||
         std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& slot) { return slot != nullptr && slot->hasEvents(); });
}

void Stage::settle() {
  for (int round = 0; isBusy(); ++round) {
    if (round > MostRounds) {
      violated("the store and the streams run in a circle");
    }
    flushStores();
    deliverAll();
  }
}

// --- Time

void Stage::passTime(Time time) {
  noteSlowness(time);
  ManualTime::pass(time);
  database_->passTime(time);
  ledger_.look();
}

// A claim that comes later than its lease lasts is given back.
void Stage::noteSlowness(Time time) {
  held_for_ = anyHeld() ? held_for_ + time : Time(0);
  troubled_ = troubled_ || held_for_ >= Lease;
}

void Stage::jumpStoreClock(Time time) {
  ledger_.clockJumped();
  troubled_ = true;
  database_->passTime(time);
  ledger_.look();
}

bool Stage::anyHeld() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& slot) { return slot != nullptr && slot->isHeld(); });
}

// --- Others

void Stage::maintain(Job job) {
  constexpr uint32_t Many = 1000;
  switch (job) {
    case Job::Sweep:
      std::ignore = database_->sweep(Many, std::nullopt);
      break;
    case Job::Reap:
    case Job::SoftReap:
      std::ignore = database_->reap(Many, job == Job::SoftReap);
      break;
  }
  ledger_.look();
}

void Stage::reload(size_t config, OpenedStores::LastWords last_words) {
  OpenedStores::atTheirEnd(last_words);
  const Installed old = std::exchange(installed_, {});
  open(config);
}

}  // namespace idempotency::fuzz
