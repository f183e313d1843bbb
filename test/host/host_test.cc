// Clients that come and go, configs that change, a database whose connections break, all at random:
// the promise is checked on the way.
//
// HOST_REQUESTS in the environment: how many requests each worker makes.
#include "test/host/host.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "source/protocol/record.h"
#include "test/host/session.h"
#include "test/support/private_listener.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using Random = std::mt19937_64;

constexpr int Workers = 3;
constexpr size_t SessionsPerWorker = 16;
constexpr int HotKeys = 8;

int requestsPerWorker() {
  const char* text = std::getenv("HOST_REQUESTS");
  return text == nullptr ? 300 : std::atoi(text);
}

int pick(Random& random, int below) {
  return std::uniform_int_distribution<int>(0, below - 1)(random);
}

class BusyHost : public Host {
protected:
  explicit BusyHost(const std::string& policy = "", bool detached = false)
      : Host("1s",
             fmt::format(R"({{"enforcement": "REQUIRED", "operation": "pay", "lease": "3s",
                              "completion_timeout": "0.5s", "max_response_bytes": 1000,
                              "in_flight": {{"action": "WAIT", "wait": "0.05s"}}{}}})",
                         policy),
             detached) {}

  virtual Session::Plan plan(Random& random, int worker, int number) {
    Session::Plan made;
    made.key = pick(random, 3) == 0 ? fmt::format("hot-key-000000000{}", pick(random, HotKeys))
                                    : fmt::format("key-{:08}-{:08}", worker, number);
    made.body = pick(random, 20) == 0 ? R"({"amount": 2})" : R"({"amount": 1})";
    const int dice = pick(random, 20);
    made.fate = dice < 7 ? static_cast<UpstreamFate>(dice) : UpstreamFate::Answers;
    made.upstream_steps = pick(random, 20);
    made.patience_steps = pick(random, 8) == 0 ? pick(random, 30) : -1;
    return made;
  }

  // What a worker of the private listener has to do; false: nothing.
  virtual bool stepRuns(Random& /*random*/, int /*worker*/) { return false; }

  void work(int worker) {
    Random random(static_cast<uint64_t>(worker) + 1);
    std::vector<std::unique_ptr<Session>> sessions;
    int begun = 0;
    const int total = requestsPerWorker();
    bool has_clients = true;
    while (stepRuns(random, worker) || with_clients_ > 0) {
      while (begun < total && sessions.size() < SessionsPerWorker) {
        sessions.push_back(
            std::make_unique<Session>(config(), route_, log_, plan(random, worker, begun++)));
      }
      std::erase_if(sessions, [this](const std::unique_ptr<Session>& session) {
        if (!session->step()) {
          return false;
        }
        const std::lock_guard lock(mutex_);
        ++statuses_[session->status()];
        return true;
      });
      if (sessions.empty() && begun == total && std::exchange(has_clients, false)) {
        --with_clients_;
      }
      std::this_thread::sleep_for(200us);
    }
    --working_;
  }

  void harm(Random& random) {
    switch (pick(random, 6)) {
      case 0:
        return proxy_.loseNextAnswer();
      case 1:
        return proxy_.loseNextRequest();
      case 2:
        return proxy_.cutNextAnswerAfter(pick(random, 200));
      case 3:
        return proxy_.setPieceSize(pick(random, 2));
      case 4:
        proxy_.setSilent(true);
        std::this_thread::sleep_for(100ms);
        return proxy_.setSilent(false);
      default:
        return loseSessions(2);
    }
  }

  // All workers, until they have nothing left to do; `meanwhile` again and again.
  void workWhile(const std::function<void()>& meanwhile) {
    std::vector<std::thread> workers;
    for (int i = 0; i < Workers; ++i) {
      workers.emplace_back([this, i] { work(i); });
    }
    while (working_ > 0) {
      std::this_thread::sleep_for(20ms);
      meanwhile();
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
  }
  void keepThePromiseWhileEverythingBreaks() {
    Random random(4711);
    int turn = 0;
    workWhile([&] {
      harm(random);
      if (turn++ % 4 == 0) {
        reload();
      }
    });
    proxy_.setPieceSize(0);
    EXPECT_EQ(log_.violations(), std::vector<std::string>());
    EXPECT_GT(log_.executions(), 0u);
    EXPECT_GT(statuses_[200], 0);
    recordStatuses();
    expectNoClaimStays();
  }
  void recordStatuses() {
    std::string seen;
    for (const auto& [status, count] : statuses_) {
      seen += fmt::format(" {}: {}", status, count);
    }
    RecordProperty("statuses", seen);
  }

  std::atomic<int> with_clients_{Workers};  // Runs may come until there are none.
  std::atomic<int> working_{Workers};
  std::map<uint32_t, int> statuses_;  // Guarded by mutex_.
  std::mutex mutex_;
};

TEST_F(BusyHost, KeepsThePromiseWhileEverythingBreaks) {
  keepThePromiseWhileEverythingBreaks();
}

// Half of the clients leave. A worker takes whatever run comes, not only those of its own clients.
class DetachedHost : public BusyHost {
protected:
  explicit DetachedHost(const std::string& timeout = "0.5s")
      : BusyHost(fmt::format(R"(, "detached": {{"timeout": "{}"}})", timeout), true) {}
  ~DetachedHost() override { EXPECT_EQ(fake::process().values["detached.running"], 0); }

  Session::Plan plan(Random& random, int worker, int number) override {
    Session::Plan made = BusyHost::plan(random, worker, number);
    made.patience_steps = pick(random, 2) == 0 ? pick(random, 40) : -1;
    return made;
  }
  virtual UpstreamFate fateOfRun(Random& random) {
    const int dice = pick(random, 20);
    return dice < 9 ? static_cast<UpstreamFate>(dice) : UpstreamFate::Answers;
  }

  bool stepRuns(Random& random, int worker) override {
    Runs& runs = runs_.at(static_cast<size_t>(worker));
    while (auto connection = listener_.accept()) {
      runs.reading.push_back(std::move(connection));
    }
    std::erase_if(runs.reading, [&](std::unique_ptr<PrivateListener::Run>& connection) {
      if (!connection->read()) {
        return connection->isClosed();
      }
      runs.running.push_back(newRun(random, std::move(connection)));
      return true;
    });
    std::erase_if(runs.running,
                  [](const std::unique_ptr<Session>& session) { return session->step(); });
    return !runs.reading.empty() || !runs.running.empty();
  }

private:
  struct Runs {
    std::vector<std::unique_ptr<PrivateListener::Run>> reading;
    std::vector<std::unique_ptr<Session>> running;
  };

  std::unique_ptr<Session> newRun(Random& random,
                                  std::unique_ptr<PrivateListener::Run> connection) {
    Session::Plan made;
    for (const auto& [name, value] : connection->headers) {
      if (name == "idempotency-key") {
        made.key = value.substr(1, value.size() - 2);
      }
    }
    made.body = connection->body;
    made.fate = fateOfRun(random);
    made.upstream_steps = pick(random, 20);
    return std::make_unique<Session>(run_config_, route_, log_, std::move(made),
                                     std::move(connection));
  }

  const PrivateListener listener_{listener_path_};
  const std::shared_ptr<fake::Config> run_config_ =
      std::make_shared<fake::Config>("idempotency_run", "");
  std::array<Runs, Workers> runs_;  // Each its worker's.
};

TEST_F(DetachedHost, KeepsThePromiseWhileEverythingBreaks) {
  keepThePromiseWhileEverythingBreaks();
}

// Nothing breaks, but the clients leave.
class LeavingHost : public DetachedHost {
protected:
  LeavingHost() : DetachedHost("60s") {}
  UpstreamFate fateOfRun(Random& /*random*/) override { return UpstreamFate::Answers; }
};

TEST_F(LeavingHost, EveryRequestThatRanHasItsResponseStored) {
  workWhile([] {});
  EXPECT_EQ(log_.violations(), std::vector<std::string>());
  recordStatuses();
  EXPECT_GT(fake::process().values["detached.finished_alone"], 0);
  expectNoClaimStays();
  EXPECT_EQ(sql("SELECT count(*) FROM idempotency.record"), std::to_string(log_.executions()));
  EXPECT_EQ(sql(fmt::format("SELECT count(*) FROM idempotency.record WHERE state = {}",
                            static_cast<int>(protocol::RecordState::Completed))),
            std::to_string(log_.executions()));
}

}  // namespace
}  // namespace idempotency::test
