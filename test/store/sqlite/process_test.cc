// The embedded store and real processes: two at once on one file, and kill -9.
//
// The test starts itself again as the other process: `process_test child MODE PATH …`.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "gtest/gtest.h"

#include "source/store/sqlite/sqlite_operator_store.h"
#include "source/store/sqlite/sqlite_store.h"
#include "test/store/sqlite/sqlite_rig.h"
#include "test/store/store_contract.h"

extern char** environ;

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

constexpr int InFlight = 16;

protocol::Identity identity(const std::string& key) {
  return {.tenant = "tenant", .operation = "operation", .key = key};
}

store::ClaimRequest claimRequest(const std::string& key) {
  store::ClaimRequest request;
  request.identity = identity(key);
  request.fingerprint = "fingerprint";
  request.attempt = store::newAttempt();
  request.lease = 1h;
  return request;
}

std::unique_ptr<sqlite::SqliteStore> open(const std::string& path) {
  auto store = sqlite::SqliteStore::create({.path = path});
  EXPECT_TRUE(store.ok());
  return *std::move(store);
}

// --- The other process

// Whole lines, each in one write, so that a kill cuts none in two.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::_Exit(3);
  }
}

// Claims and ends keys until it is killed; says what the store has acknowledged.
class Worker {
public:
  explicit Worker(const std::string& path) : store_(open(path)) {}
  void run() {
    for (int i = 0; i < InFlight; ++i) {
      begin();
    }
    ::pause();
  }

private:
  void begin() {
    const int number = next_++;
    const store::ClaimRequest request =
        claimRequest(std::to_string(::getpid()) + "-" + std::to_string(number));
    store_->claim(request, soon(), [this, request, number](const store::ClaimResult& result) {
      if (!std::holds_alternative<store::Claimed>(result)) {
        say("failed claim");
        return;
      }
      say("claimed " + request.identity.key + " " + std::to_string(request.attempt));
      end({request.identity, request.attempt}, number);
    });
  }
  void end(const store::ClaimRef& ref, int number) {
    const auto over = [this, ref, number](const store::WriteResult& result) {
      if (result.outcome != store::WriteOutcome::Done) {
        say("failed write " + result.reason);
        return;
      }
      say((number % 4 == 0 ? "released " : "completed ") + ref.identity.key + " " +
          std::to_string(ref.attempt));
      begin();
    };
    if (number % 4 == 0) {
      store_->settle(ref, protocol::Released{}, soon(), over);
      return;
    }
    protocol::Completed ending;
    ending.status = 200;
    ending.response = std::string(2000, 'r') + ref.identity.key;
    store_->settle(ref, std::move(ending), soon(), over);
  }

  std::unique_ptr<sqlite::SqliteStore> store_;
  std::atomic<int> next_{0};
};

// Claims key 0 … count - 1, one after the other; says which it won.
void claimAll(const std::string& path, int count) {
  const std::unique_ptr<sqlite::SqliteStore> store = open(path);
  say("ready");
  for (int i = 0; i < count; ++i) {
    Answer<store::ClaimResult> answer;
    store->claim(claimRequest("key" + std::to_string(i)), soon(), answer.callback());
    const store::ClaimResult result = answer.get();
    if (std::holds_alternative<store::Claimed>(result)) {
      say("won " + std::to_string(i));
    } else if (!std::holds_alternative<store::Exists>(result)) {
      say("failed " + std::to_string(i));
    }
  }
  say("over");
}

// Claims key 0 … count - 1; the outcome of each is unknown at first, and comes late. Says whether
// the store took it.
void completeLate(const std::string& path, int count) {
  const std::unique_ptr<sqlite::SqliteStore> store = open(path);
  const auto settle = [&](const store::ClaimRef& ref, protocol::Ending ending) {
    Answer<store::WriteResult> answer;
    store->settle(ref, std::move(ending), soon(), answer.callback());
    return answer.get().outcome;
  };
  for (int i = 0; i < count; ++i) {
    const store::ClaimRequest request = claimRequest("key" + std::to_string(i));
    Answer<store::ClaimResult> claimed;
    store->claim(request, soon(), claimed.callback());
    const store::ClaimRef ref{request.identity, request.attempt};
    if (!std::holds_alternative<store::Claimed>(claimed.get()) ||
        settle(ref, protocol::Unknown{}) != store::WriteOutcome::Done) {
      say("failed");
      return;
    }
    say("unknown " + std::to_string(request.attempt));
    const store::WriteOutcome outcome = settle(ref, protocol::Completed{});
    say(outcome == store::WriteOutcome::Done     ? "done"
        : outcome == store::WriteOutcome::Fenced ? "fenced"
                                                 : "failed");
  }
}

int childMain(const std::vector<std::string>& arguments) {
  if (arguments[0] == "work") {
    Worker(arguments[1]).run();
  } else if (arguments[0] == "claim") {
    claimAll(arguments[1], std::atoi(arguments[2].c_str()));
  } else if (arguments[0] == "late") {
    completeLate(arguments[1], std::atoi(arguments[2].c_str()));
  }
  return 0;
}

// --- This process

class Child {
public:
  explicit Child(std::vector<std::string> arguments) {
    int pipe[2];
    EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
    arguments.insert(arguments.begin(), {"process_test", "child"});
    std::vector<char*> pointers;
    for (std::string& argument : arguments) {
      pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&id_, "/proc/self/exe", &actions, nullptr, pointers.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    output_ = ::fdopen(pipe[0], "r");
  }
  ~Child() {
    kill();
    ::fclose(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The next line; none at the end. A line that was cut is no line.
  std::optional<std::string> line() {
    char* text = nullptr;
    size_t size = 0;
    const ssize_t length = ::getline(&text, &size, output_);
    std::optional<std::string> result;
    if (length > 0 && text[length - 1] == '\n') {
      result = std::string(text, static_cast<size_t>(length - 1));
    }
    ::free(text);
    return result;
  }
  void kill() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
      id_ = 0;
    }
  }

private:
  pid_t id_ = 0;
  FILE* output_ = nullptr;
};

// What the worker was told, by key.
struct Told {
  protocol::Attempt attempt = 0;
  bool completed = false;
  bool released = false;
};

void expectKept(store::Store& store, const std::string& key, const Told& told) {
  Answer<store::LookUpResult> answer;
  store.lookUp(identity(key), soon(), answer.callback());
  const store::LookUpResult found = answer.get();
  const auto* const record = std::get_if<store::Record>(&found);
  if (told.released) {
    EXPECT_EQ(record, nullptr) << key;
    return;
  }
  if (record == nullptr) {
    // A release may have been written whose answer was never read.
    EXPECT_FALSE(told.completed) << key;
    EXPECT_EQ(std::atoi(key.substr(key.find('-') + 1).c_str()) % 4, 0) << key;
    return;
  }
  EXPECT_EQ(record->attempt, told.attempt) << key;
  if (told.completed) {
    EXPECT_EQ(record->state, protocol::RecordState::Completed) << key;
    EXPECT_EQ(record->response, std::string(2000, 'r') + key);
  }
}

TEST(SqliteProcessTest, NothingAcknowledgedIsLostByKill9) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/records.db";
  std::map<std::string, Told> told;
  for (int round = 0; round < 12; ++round) {
    Child child({"work", path});
    // Killed after some number of answers, wherever it is then.
    const int lines = std::uniform_int_distribution<int>(1, 400)(random);
    for (int i = 0; i < lines; ++i) {
      const std::optional<std::string> line = child.line();
      ASSERT_TRUE(line.has_value()) << "the worker ended by itself";
      char what[32];
      char key[64];
      long long attempt = 0;
      ASSERT_EQ(std::sscanf(line->c_str(), "%31s %63s %lld", what, key, &attempt), 3) << *line;
      Told& entry = told[key];
      entry.attempt = attempt;
      entry.completed = entry.completed || std::strcmp(what, "completed") == 0;
      entry.released = entry.released || std::strcmp(what, "released") == 0;
      ASSERT_NE(std::string(what), "failed") << *line;
    }
    child.kill();
    const std::unique_ptr<sqlite::SqliteStore> store = open(path);
    for (const auto& [key, entry] : told) {
      expectKept(*store, key, entry);
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(told.size(), 100U);
}

TEST(SqliteProcessTest, TwoProcessesOnOneFileNeverBothWin) {
  constexpr int Keys = 300;
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/records.db";
  const std::unique_ptr<sqlite::SqliteStore> store = open(path);
  Child child({"claim", path, std::to_string(Keys)});
  ASSERT_EQ(child.line(), "ready");
  // Both have begun.
  ASSERT_EQ(child.line(), "won 0");
  std::set<int> theirs = {0};
  std::set<int> ours;
  for (int i = Keys - 1; i >= 0; --i) {
    Answer<store::ClaimResult> answer;
    store->claim(claimRequest("key" + std::to_string(i)), soon(), answer.callback());
    const store::ClaimResult result = answer.get();
    if (std::holds_alternative<store::Claimed>(result)) {
      ours.insert(i);
    } else {
      EXPECT_TRUE(std::holds_alternative<store::Exists>(result)) << result.index();
    }
  }
  for (auto line = child.line(); line.has_value() && *line != "over"; line = child.line()) {
    int number = 0;
    ASSERT_EQ(std::sscanf(line->c_str(), "won %d", &number), 1) << *line;
    EXPECT_EQ(ours.count(number), 0U) << "both won";
    theirs.insert(number);
  }
  EXPECT_EQ(ours.size() + theirs.size(), static_cast<size_t>(Keys));
  EXPECT_FALSE(ours.empty());
  EXPECT_FALSE(theirs.empty());
}

TEST(SqliteProcessTest, BusyNeighbourDoesNotStarveTheOther) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/records.db";
  Child child({"work", path});
  ASSERT_TRUE(child.line().has_value());
  const std::unique_ptr<sqlite::SqliteStore> store = open(path);
  for (int i = 0; i < 50; ++i) {
    Answer<store::ClaimResult> answer;
    store->claim(claimRequest("mine" + std::to_string(i)), std::chrono::steady_clock::now() + 10s,
                 answer.callback());
    const store::ClaimResult result = answer.get();
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(result))
        << i << " "
        << (std::holds_alternative<store::Unavailable>(result)
                ? std::get<store::Unavailable>(result).reason
                : std::to_string(result.index()));
  }
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(child.line().has_value());
  }
}

TEST(SqliteProcessTest, NeighbourKilledInATransactionDelaysNoOne) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/records.db";
  const std::unique_ptr<sqlite::SqliteStore> store = open(path);
  for (int round = 0; round < 5; ++round) {
    Child child({"work", path});
    for (int i = 0; i < 10 + round * 7; ++i) {
      ASSERT_TRUE(child.line().has_value());
    }
    child.kill();
    Answer<store::ClaimResult> answer;
    store->claim(claimRequest("after" + std::to_string(round)), soon(), answer.callback());
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
  }
}

TEST(SqliteProcessTest, OperatorAndLateCompletionInAnotherProcessAreNeverBothBelieved) {
  constexpr int Keys = 200;
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/records.db";
  std::unique_ptr<store::OperatorStore> by;
  Child child({"late", path, std::to_string(Keys)});
  int said = 0;
  for (int i = 0; i < Keys; ++i) {
    const std::optional<std::string> unknown = child.line();
    long long attempt = 0;
    ASSERT_TRUE(unknown.has_value());
    ASSERT_EQ(std::sscanf(unknown->c_str(), "unknown %lld", &attempt), 1) << *unknown;
    if (by == nullptr) {
      auto opened = sqlite::openOperatorStore(path, LongTime);
      ASSERT_TRUE(opened.ok()) << opened.status();
      by = *std::move(opened);
    }
    const auto result = by->change({.seen = {identity("key" + std::to_string(i)), attempt},
                                    .action = store::NotRun{},
                                    .actor = "alice",
                                    .reason = "asked the bank",
                                    .dry_run = false});
    ASSERT_TRUE(result.ok()) << result.status();
    const bool believed = result->outcome == store::ChangeOutcome::Done;
    EXPECT_EQ(child.line(), believed ? "fenced" : "done") << i;
    said += believed ? 1 : 0;
  }
  const auto page = by->audit({}, std::nullopt, Keys + 1);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->entries.size(), static_cast<size_t>(said));
}

TEST(SqliteProcessTest, OperatorGetsItsTurnBesideABusyStore) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/records.db";
  Child child({"work", path});
  ASSERT_TRUE(child.line().has_value());
  const auto by = sqlite::openOperatorStore(path, 10s);
  ASSERT_TRUE(by.ok()) << by.status();
  for (int i = 0; i < 50; ++i) {
    const auto purged = (*by)->purge({.tenant = "none", .actor = "alice", .reason = {}}, 10);
    ASSERT_TRUE(purged.ok()) << purged.status();
    ASSERT_TRUE((*by)->list({}, std::nullopt, 10).ok());
    ASSERT_TRUE(child.line().has_value());
  }
}

}  // namespace
}  // namespace idempotency::test

int main(int count, char** arguments) {
  if (count > 2 && std::strcmp(arguments[1], "child") == 0) {
    return idempotency::test::childMain({arguments + 2, arguments + count});
  }
  ::testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
