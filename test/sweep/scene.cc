#include "test/sweep/scene.h"

#include <fmt/format.h>
#include <utility>

#include "source/message/stored_response.h"
#include "test/support/manual_time.h"
#include "test/support/opened_stores.h"
#include "test/support/transitions.h"

namespace idempotency::test {
namespace {

// Of the config that was opened last.
SteppedStore& store() {
  return *OpenedStores::all().back();
}

// The other Envoy's sweeper comes by this often.
constexpr uint64_t SweepTicks = 20;
// Nobody is held for longer than the times of his policy add up to.
constexpr int LongestHold = 400;

}  // namespace

Scene::Scene(Options options) : options_(std::move(options)) {
  fake::resetProcess();
  OpenedStores::use(database_);
  log_.excuseWhere([this](const std::string& key) {
    return options_.retry_lease && lease_ran_out_.contains(key);
  });
  route_ = std::make_unique<fake::Route>(
      "idempotency",
      fmt::format(R"({{"policy": {{"enforcement": "REQUIRED", "operation": "pay", "lease": "1s",
                     "completion_timeout": "0.3s", "max_response_bytes": 1000{}{}}}}})",
                  options_.retry_lease ? R"(, "on_lease_expired": "RETRY")" : "", options_.policy));
  require(route_->loaded(), "the route's config is refused");
  open();
}

Scene::~Scene() {
  sessions_.clear();
  config_.reset();
  OpenedStores::use(nullptr);
}

void Scene::open() {
  config_ = std::make_shared<fake::Config>(
      "idempotency",
      fmt::format(R"({{"store": {{"sqlite": {{"path": "/never/opened.db", "timeout": "0.2s"}}}},
                     "tenant": {{"sources": [{{"fixed": "scene"}}]}},
                     "replay_cache": {{"max_bytes": {}}},
                     "maintenance": {{"enabled": false}}}})",
                  options_.cache ? 1 << 20 : 0));
  require(config_->loaded(), "the filter's config is refused");
}

// --- What happens

void Scene::start(const Session::Plan& plan) {
  bodies_[plan.key].insert(plan.body);
  sessions_.push_back(std::make_unique<Session>(config_, *route_, log_, plan));
}

void Scene::tick() {
  ManualTime::pass(Tick);
  database_->passTime(Tick);
  noteLeases();
  store().expire();
  stepStore();
  ManualTime::runTimers();
  moveSessions();
  if (++ticks_ % SweepTicks == 0) {
    database_->sweep(1000, std::nullopt);
  }
  on_tick();
}

void Scene::ticks(int count) {
  for (int i = 0; i < count; ++i) {
    tick();
  }
}

void Scene::stepStore() {
  if (store().waiting() > 0) {
    store().step(fate(++steps_));
  }
}

void Scene::noteLeases() {
  for (const auto& [key, bodies] : bodies_) {
    const auto record = find(key);
    if (record.has_value() && record->state == protocol::RecordState::InProgress &&
        !record->lease_alive) {
      lease_ran_out_.insert(key);
    }
  }
}

void Scene::moveSessions() {
  std::erase_if(sessions_, [this](const std::unique_ptr<Session>& session) {
    if (!session->step()) {
      return false;
    }
    statuses_.push_back(session->status());
    if (session->acknowledged() && session->status() == 200) {
      acknowledged_.push_back({session->plan(), session->execution()});
    }
    return true;
  });
}

void Scene::finishSessions() {
  for (int i = 0; i < LongestHold && !sessions_.empty(); ++i) {
    tick();
  }
  require(sessions_.empty(), "a client is held for ever");
}

void Scene::leaveAll() {
  for (const std::unique_ptr<Session>& session : sessions_) {
    session->leave();
  }
  moveSessions();
}

void Scene::reload() {
  leaveAll();
  while (store().waiting() > 0 && steps_ < 10'000) {
    stepStore();
  }
  config_.reset();
  open();
}

void Scene::answerLate() {
  store().answerLate();
}

// --- What must hold

void Scene::require(bool condition, const std::string& what) {
  if (!condition) {
    violations_.push_back(what);
  }
}

std::vector<std::string> Scene::violations() const {
  std::vector<std::string> all = log_.violations();
  all.insert(all.end(), violations_.begin(), violations_.end());
  return all;
}

std::optional<store::Record> Scene::find(const std::string& key) const {
  const store::LookUpResult result = database_->lookUp({"scene", "pay", key});
  const auto* found = std::get_if<store::Record>(&result);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

void Scene::end(bool harmless) {
  fate = [](uint64_t) { return StepFate::CarriedOut; };
  on_tick = [] {};
  answerLate();
  finishSessions();
  ticks(3 * TicksOfLease);
  checkNothingLeft();
  for (const Acknowledged& promise : acknowledged_) {
    checkAcknowledged(promise);
  }
  for (const auto& [key, bodies] : std::map(bodies_)) {
    checkKey(key, bodies, harmless);
  }
  checkNothingLeft();
}

void Scene::checkNothingLeft() {
  for (const char* gauge : {"in_flight", "waiting", "settling"}) {
    require(config_->gauge(gauge) == 0,
            fmt::format("{} is {} when all is over", gauge, config_->gauge(gauge)));
  }
  const uint64_t asked = store().asked();
  ticks(TicksOfLease);
  require(store().asked() == asked, "somebody still asks the store when all is over");
  for (const auto& [key, bodies] : bodies_) {
    const auto record = find(key);
    require(!record.has_value() || record->state != protocol::RecordState::InProgress,
            fmt::format("{}: the claim stays for ever", key));
  }
}

void Scene::checkAcknowledged(const Acknowledged& promise) {
  const std::string& key = promise.plan.key;
  const auto record = find(key);
  if (!record.has_value() || record->state != protocol::RecordState::Completed) {
    return require(false, fmt::format("{}: acknowledged, and now {}", key,
                                      record.has_value() ? name(record->state) : "absent"));
  }
  if (promise.plan.fate == UpstreamFate::AnswersAtLength) {
    return require(record->tombstone == protocol::Tombstone::TooLarge,
                   fmt::format("{}: a long answer left no tombstone", key));
  }
  const auto response = message::parseResponse(record->response.value_or(""));
  require(response.ok() && response->body == ExecutionLog::answerOf(promise.execution),
          fmt::format("{}: what is stored is not what was acknowledged", key));
}

// A client asks once more, and all goes well.
void Scene::checkKey(const std::string& key, const std::set<std::string>& bodies, bool harmless) {
  const bool free = log_.isFree(key);
  const uint64_t before = log_.executions();
  start({.key = key, .body = *bodies.begin()});
  finishSessions();
  const uint32_t status = statuses_.back();
  const bool ran = log_.executions() > before;
  const bool reused = bodies.size() > 1 && status == 422;
  require(status == 200 || status == 409 || reused,
          fmt::format("{}: whoever asks at the end gets {}", key, status));
  if (free && harmless && !reused) {
    require(ran, fmt::format("{}: nothing ever ran, and a new request gets {}", key, status));
  }
}

}  // namespace idempotency::test
