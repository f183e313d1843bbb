// One request, and one fault at one moment of it: each kind of fault at each boundary between the
// client, the filter, the store and the upstream, while other requests go on. Then the same request
// comes again, until it gets an answer that will not change.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "test/host/host.h"
#include "test/host/session.h"
#include "test/support/gate.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

enum class Boundary : uint8_t {
  ClaimSent,               // On the way to the server.
  ClaimAcknowledged,       // The server's answer on the way to the store.
  UpstreamSent,            // The upstream has the request.
  UpstreamAnswered,        // Half of its answer is there.
  CompletionSent,          // As for the claim.
  CompletionAcknowledged,  // As for the claim.
  ClientAnswered,          // The answer on the way to the client.
};
constexpr std::array BoundaryNames = {
    "ClaimSent",      "ClaimAcknowledged",      "UpstreamSent",  "UpstreamAnswered",
    "CompletionSent", "CompletionAcknowledged", "ClientAnswered"};

enum class Fault : uint8_t {
  Cut,           // The connection ends on which it is under way.
  Withheld,      // It goes no further until somebody's patience is over.
  ClientLeaves,  // It goes on when the client has gone.
  Reload,        // It goes on when another config has taken over.
  DatabaseLost,  // It goes on when the server has ended all sessions.
};
constexpr std::array FaultNames = {"Cut", "Withheld", "ClientLeaves", "Reload", "DatabaseLost"};

using Cell = std::tuple<Boundary, Fault>;

std::string nameOf(const ::testing::TestParamInfo<Cell>& cell) {
  return fmt::format("{}_{}", BoundaryNames.at(static_cast<size_t>(std::get<0>(cell.param))),
                     FaultNames.at(static_cast<size_t>(std::get<1>(cell.param))));
}

// What the store says there; empty: it says nothing.
std::string statementAt(Boundary boundary) {
  switch (boundary) {
    case Boundary::ClaimSent:
    case Boundary::ClaimAcknowledged:
      return "idempotency_claim";
    case Boundary::CompletionSent:
    case Boundary::CompletionAcknowledged:
      return "idempotency_complete";
    case Boundary::UpstreamSent:
    case Boundary::UpstreamAnswered:
    case Boundary::ClientAnswered:
      break;
  }
  return "";
}

// The state of the record then; 0: there is none.
const char* stateAt(Boundary boundary) {
  switch (boundary) {
    case Boundary::ClaimSent:
      return "0";
    case Boundary::ClaimAcknowledged:
    case Boundary::UpstreamSent:
    case Boundary::UpstreamAnswered:
    case Boundary::CompletionSent:
      return "1";
    case Boundary::CompletionAcknowledged:
    case Boundary::ClientAnswered:
      break;
  }
  return "2";
}

// Whether the request may get to the upstream: not if its claim is not ours in time, or for nobody.
bool mayRun(Boundary boundary, Fault fault) {
  switch (boundary) {
    case Boundary::ClaimSent:
      return fault == Fault::Reload;
    case Boundary::ClaimAcknowledged:
      return fault == Fault::Reload || fault == Fault::DatabaseLost;
    case Boundary::UpstreamSent:
    case Boundary::UpstreamAnswered:
    case Boundary::CompletionSent:
    case Boundary::CompletionAcknowledged:
    case Boundary::ClientAnswered:
      break;
  }
  return true;
}

constexpr auto Lease = 30s;
constexpr auto Patience = 60s;  // Of the test: a machine may be slow.
constexpr char Body[] = R"({"amount": 1})";

// Where nothing is to be late, nothing is.
std::string timeoutFor(Fault fault) {
  return fault == Fault::Withheld ? "0.5s" : "20s";
}

class AimedHost : public Host, public ::testing::WithParamInterface<Cell> {
protected:
  AimedHost()
      : Host(timeoutFor(fault()),
             fmt::format(R"({{"enforcement": "REQUIRED", "operation": "pay", "lease": "30s",
                              "completion_timeout": "{}"}})",
                         timeoutFor(fault()))) {
    other_worker_ = std::thread([this] { workOnOthers(); });
  }
  ~AimedHost() override { stopOthers(); }

  static Boundary boundary() { return std::get<0>(GetParam()); }
  static Fault fault() { return std::get<1>(GetParam()); }

  // What became of a client.
  struct Result {
    uint32_t status = 0;
    uint64_t execution = 0;
    bool stored = false;  // It got the upstream's answer, and no word that it is not stored.
    bool replayed = false;
  };

  // A request with this key, and the fault when it is at the boundary. False: it never was there.
  bool strike(const std::string& key) {
    const auto gate = std::make_shared<Gate>();
    over_ = false;
    leaves_ = false;
    if (const std::string statement = statementAt(boundary()); !statement.empty()) {
      const bool answered = boundary() == Boundary::ClaimAcknowledged ||
                            boundary() == Boundary::CompletionAcknowledged;
      proxy_.aim(FaultyProxy::Aim{statement, key, answered, gate});
    }
    std::thread worker([this, &key, &gate] { sendOnce(key, *gate); });
    EXPECT_TRUE(eventually([&] { return gate->held() || over_; }, Patience));
    proxy_.aim(std::nullopt);
    const bool struck = gate->held();
    const bool goes_on = !struck || doHarm(key);
    gate->open(goes_on);
    worker.join();
    return struck;
  }

  // Main thread, while all stands still at the boundary. False: the connection to the store ends.
  bool doHarm(const std::string& key) {
    EXPECT_EQ(stateOf(key), stateAt(boundary()));
    const bool at_store = !statementAt(boundary()).empty();
    switch (fault()) {
      case Fault::Cut:
        return !at_store;
      case Fault::Withheld:
        if (at_store) {
          EXPECT_TRUE(eventually([this] { return over_.load(); }, Patience));
        } else if (boundary() == Boundary::ClientAnswered) {
          waitPast(key, timeoutFor(fault()));
        }
        return true;
      case Fault::ClientLeaves:
        if (at_store) {
          leaves_ = true;
          EXPECT_TRUE(eventually([this] { return over_.load(); }, Patience));
        }
        return true;
      case Fault::Reload:
        reload();
        return true;
      case Fault::DatabaseLost:
        loseSessions(100);
        return true;
    }
    return true;
  }

  // Until this much time has gone by since the record was completed, by the server's clock.
  void waitPast(const std::string& key, const std::string& time) {
    EXPECT_TRUE(eventually(
        [&] {
          return sql(fmt::format(
                     "SELECT now() > completed_at + interval '{}' FROM idempotency.record "
                     "WHERE key = '{}'::bytea",
                     time, key)) == "t";
        },
        Patience));
  }

  // A worker's work. Past the gate at a boundary that is not the store's.
  void sendOnce(const std::string& key, Gate& gate) {
    auto session = std::make_unique<Session>(config(), route_, log_, planFor(key));
    bool passed = !statementAt(boundary()).empty();
    for (;;) {
      session->step();
      if (!passed && isThere(*session)) {
        passed = true;
        gate.pass();
        doHarmTo(*session);
      }
      if (leaves_) {
        session->leave();
      }
      if (session->over()) {
        break;
      }
      std::this_thread::sleep_for(200us);
    }
    result_ = resultOf(*session);
    over_ = true;
    session.reset();
  }

  static Session::Plan planFor(const std::string& key) {
    return {.key = key, .body = Body, .fate = UpstreamFate::AnswersInTwo, .upstream_steps = 1};
  }

  static bool isThere(const Session& session) {
    switch (boundary()) {
      case Boundary::UpstreamSent:
        return session.phase() == Session::Phase::Upstream;
      case Boundary::UpstreamAnswered:
        return session.phase() == Session::Phase::MidAnswer;
      case Boundary::ClientAnswered:
        return session.over() && session.execution() != 0;
      case Boundary::ClaimSent:
      case Boundary::ClaimAcknowledged:
      case Boundary::CompletionSent:
      case Boundary::CompletionAcknowledged:
        break;
    }
    return false;
  }

  // Its worker, past the gate.
  static void doHarmTo(Session& session) {
    const bool answered = boundary() == Boundary::ClientAnswered;
    switch (fault()) {
      case Fault::Cut:
        return answered ? session.loseClient() : session.loseUpstream();
      case Fault::Withheld:
        return answered ? void() : session.cut();
      case Fault::ClientLeaves:
        return session.leave();
      case Fault::Reload:
      case Fault::DatabaseLost:
        return;
    }
  }

  static Result resultOf(const Session& session) {
    return {.status = session.status(),
            .execution = session.execution(),
            .stored = session.status() == 200 && session.acknowledged(),
            .replayed = session.replayed()};
  }

  // The same request again, until nothing can change its answer any more: it is replayed, it runs
  // now, or nobody knows whether it ran.
  Result sendUntilFinal(const std::string& key) {
    Result last;
    std::thread worker([&] {
      EXPECT_TRUE(eventually(
          [&] {
            Session session(config(), route_, log_, planFor(key));
            EXPECT_TRUE(eventually([&] { return session.step(); }, Patience));
            last = resultOf(session);
            return last.status == 200 || (last.status == 409 && stateOf(key) == "4");
          },
          Patience))
          << "the last answer was " << last.status << ", the record's state " << stateOf(key);
    });
    worker.join();
    return last;
  }

  std::string stateOf(const std::string& key) {
    return sql(fmt::format(
        "SELECT coalesce(max(state), 0) FROM idempotency.record WHERE key = '{}'::bytea", key));
  }

  // Requests of others, so that the store's batches are not ours alone.
  void workOnOthers() {
    std::vector<std::unique_ptr<Session>> sessions;
    for (int number = 0; !stop_ || !sessions.empty();) {
      while (!stop_ && sessions.size() < 4) {
        sessions.push_back(std::make_unique<Session>(
            config(), route_, log_,
            Session::Plan{.key = fmt::format("another-key-{:08}", number++),
                          .body = Body,
                          .upstream_steps = 2}));
      }
      std::erase_if(sessions, [](const auto& session) { return session->step(); });
      std::this_thread::sleep_for(200us);
    }
  }
  void stopOthers() {
    stop_ = true;
    if (other_worker_.joinable()) {
      other_worker_.join();
    }
  }

  Result result_;  // Of the request that was struck; for the main thread when its worker is joined.

private:
  std::atomic<bool> over_{false};
  std::atomic<bool> leaves_{false};
  std::atomic<bool> stop_{false};
  std::thread other_worker_;
};

TEST_P(AimedHost, KeepsThePromise) {
  constexpr int Tries = 20;  // A store that has just lost its connections may refuse some.
  const auto begun = steady_clock::now();
  std::string key;
  bool struck = false;
  for (int i = 0; i < Tries && !struck; ++i) {
    key = fmt::format("aimed-key-{:08}", i);
    struck = strike(key);
  }
  ASSERT_TRUE(struck) << "the moment never came";
  const Result again = sendUntilFinal(key);
  // A claim that nobody took back in time can only be unknown.
  const bool in_time = steady_clock::now() < begun + Lease;
  stopOthers();
  RecordProperty("first", static_cast<int>(result_.status));
  RecordProperty("again", static_cast<int>(again.status));

  EXPECT_EQ(log_.violations(), std::vector<std::string>());
  EXPECT_EQ(result_.execution != 0, mayRun(boundary(), fault()));
  if (result_.execution == 0) {
    EXPECT_TRUE(again.execution != 0 || !in_time) << "it never ran, and is not free again";
  } else {
    EXPECT_EQ(again.execution, 0u);
    EXPECT_TRUE(again.replayed || !result_.stored) << "what was acknowledged is lost";
  }
  expectNoClaimStays();
}

INSTANTIATE_TEST_SUITE_P(
    Each, AimedHost,
    ::testing::Combine(::testing::Values(Boundary::ClaimSent, Boundary::ClaimAcknowledged,
                                         Boundary::UpstreamSent, Boundary::UpstreamAnswered,
                                         Boundary::CompletionSent, Boundary::CompletionAcknowledged,
                                         Boundary::ClientAnswered),
                       ::testing::Values(Fault::Cut, Fault::Withheld, Fault::ClientLeaves,
                                         Fault::Reload, Fault::DatabaseLost)),
    nameOf);

}  // namespace
}  // namespace idempotency::test
