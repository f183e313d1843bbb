// Clients that come and go, configs that change, a database whose connections break, all at random:
// the promise is checked on the way.
//
// HOST_REQUESTS in the environment: how many requests each worker makes.
#include "test/host/host.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "test/host/session.h"

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
  BusyHost()
      : Host("1s", R"({"enforcement": "REQUIRED", "operation": "pay", "lease": "3s",
                       "completion_timeout": "0.5s", "max_response_bytes": 1000,
                       "in_flight": {"action": "WAIT", "wait": "0.05s"}})") {}

  Session::Plan plan(Random& random, int worker, int number) {
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

  void work(int worker) {
    Random random(static_cast<uint64_t>(worker) + 1);
    std::vector<std::unique_ptr<Session>> sessions;
    int begun = 0;
    const int total = requestsPerWorker();
    while (begun < total || !sessions.empty()) {
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

  std::atomic<int> working_{Workers};
  std::map<uint32_t, int> statuses_;  // Guarded by mutex_.
  std::mutex mutex_;
};

TEST_F(BusyHost, KeepsThePromiseWhileEverythingBreaks) {
  std::vector<std::thread> workers;
  for (int i = 0; i < Workers; ++i) {
    workers.emplace_back([this, i] { work(i); });
  }
  Random random(4711);
  for (int turn = 0; working_ > 0; ++turn) {
    std::this_thread::sleep_for(20ms);
    harm(random);
    if (turn % 4 == 0) {
      reload();
    }
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  proxy_.setPieceSize(0);
  EXPECT_EQ(log_.violations(), std::vector<std::string>());
  EXPECT_GT(log_.executions(), 0u);
  EXPECT_GT(statuses_[200], 0);
  std::string seen;
  for (const auto& [status, count] : statuses_) {
    seen += fmt::format(" {}: {}", status, count);
  }
  RecordProperty("statuses", seen);
  expectNoClaimStays();
}

}  // namespace
}  // namespace idempotency::test
