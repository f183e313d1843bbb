// The embedded store against the plain way to use SQLite: one durable transaction per statement.
//
//   sqlite_benchmark [--rounds N] [--seconds S] [--folder PATH]
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <sqlite3.h>

#include "bench/ratio.h"
#include "fmt/format.h"
#include "source/store/sqlite/sqlite_store.h"
#include "source/store/store.h"
#include "test/support/allocation_counter.h"

namespace idempotency::bench {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t ResponseBytes = 1024;
constexpr size_t InFlight = 64;

struct Options {
  int rounds = 5;
  double seconds = 2;
  std::string folder = "/tmp";
};

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "sqlite_benchmark: {}\n", why);
  std::exit(1);
}

protocol::Identity identityOf(uint64_t number) {
  return {.tenant = fmt::format("tenant-{}", number % 16),
          .operation = "create-payment",
          // As random as clients' keys are.
          .key = fmt::format("{:016x}-{:016x}", number * 0x9E3779B97F4A7C15ULL, number)};
}

std::string fingerprintOf(uint64_t number) {
  return '\x01' + fmt::format("{:032}", number);
}

store::Deadline inAMinute() {
  return steady_clock::now() + std::chrono::minutes(1);
}

// --- The plain way

class Naive {
public:
  explicit Naive(const std::string& path) {
    check(sqlite3_open(path.c_str(), &database_), "open");
    run("PRAGMA journal_mode = WAL");
    run("PRAGMA synchronous = FULL");
    run("CREATE TABLE IF NOT EXISTS record (tenant BLOB NOT NULL, operation BLOB NOT NULL, "
        "key BLOB NOT NULL, fingerprint BLOB NOT NULL, state INTEGER NOT NULL, "
        "attempt INTEGER NOT NULL, lease_until INTEGER NOT NULL, expires_at INTEGER NOT NULL, "
        "response BLOB, PRIMARY KEY (tenant, operation, key)) WITHOUT ROWID");
    claim_ = prepare(
        "INSERT INTO record VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, NULL) "
        "ON CONFLICT DO NOTHING");
    complete_ = prepare(
        "UPDATE record SET state = 2, response = ?5 WHERE tenant = ?1 "
        "AND operation = ?2 AND key = ?3 AND attempt = ?4 AND state = 1");
  }
  ~Naive() {
    sqlite3_finalize(claim_);
    sqlite3_finalize(complete_);
    sqlite3_close(database_);
  }

  void live(uint64_t number, const std::string& response) {
    const protocol::Identity identity = identityOf(number);
    const std::string fingerprint = fingerprintOf(number);
    const protocol::Attempt attempt = store::newAttempt();
    bindIdentity(claim_, identity);
    bindBlob(claim_, 4, fingerprint);
    sqlite3_bind_int64(claim_, 5, attempt);
    sqlite3_bind_int64(claim_, 6, 1);
    sqlite3_bind_int64(claim_, 7, 2);
    step(claim_);
    bindIdentity(complete_, identity);
    sqlite3_bind_int64(complete_, 4, attempt);
    bindBlob(complete_, 5, response);
    step(complete_);
  }

private:
  void check(int code, const char* doing) {
    if (code != SQLITE_OK) {
      die(fmt::format("{}: {}", doing, sqlite3_errmsg(database_)));
    }
  }
  void run(const char* sql) { check(sqlite3_exec(database_, sql, nullptr, nullptr, nullptr), sql); }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(database_, sql, -1, &statement, nullptr), sql);
    return statement;
  }
  static void bindBlob(sqlite3_stmt* statement, int index, const std::string& bytes) {
    sqlite3_bind_blob(statement, index, bytes.data(), static_cast<int>(bytes.size()),
                      SQLITE_STATIC);
  }
  static void bindIdentity(sqlite3_stmt* statement, const protocol::Identity& identity) {
    bindBlob(statement, 1, identity.tenant);
    bindBlob(statement, 2, identity.operation);
    bindBlob(statement, 3, identity.key);
  }
  void step(sqlite3_stmt* statement) {
    if (sqlite3_step(statement) != SQLITE_DONE || sqlite3_changes(database_) != 1) {
      die(fmt::format("a plain statement failed: {}", sqlite3_errmsg(database_)));
    }
    sqlite3_reset(statement);
  }

  sqlite3* database_ = nullptr;
  sqlite3_stmt* claim_ = nullptr;
  sqlite3_stmt* complete_ = nullptr;
};

double naiveLives(Naive& naive, uint64_t& number, double seconds) {
  const std::string response(ResponseBytes, 'r');
  const auto start = steady_clock::now();
  const auto end = start + duration<double>(seconds);
  uint64_t lives = 0;
  while (steady_clock::now() < end) {
    naive.live(++number, response);
    ++lives;
  }
  return static_cast<double>(lives) / duration<double>(steady_clock::now() - start).count();
}

// --- The store

// Lives one after the other, `InFlight` at a time: each callback starts what comes next.
class Load {
public:
  Load(store::Store& store, uint64_t& number, double seconds)
      : store_(store), number_(number), end_(steady_clock::now() + duration<double>(seconds)) {}

  double run() {
    const auto start = steady_clock::now();
    for (size_t i = 0; i < InFlight; ++i) {
      begin();
    }
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return running_ == 0; });
    return static_cast<double>(lives_) / duration<double>(steady_clock::now() - start).count();
  }

private:
  void begin() {
    uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = ++number_;
      ++running_;
    }
    store::ClaimRequest request;
    request.identity = identityOf(number);
    request.fingerprint = fingerprintOf(number);
    request.attempt = store::newAttempt();
    store::ClaimRef claim{request.identity, request.attempt};
    store_.claim(std::move(request), inAMinute(),
                 [this, claim = std::move(claim)](const store::ClaimResult& result) mutable {
                   if (!std::holds_alternative<store::Claimed>(result)) {
                     die("a claim failed");
                   }
                   complete(std::move(claim));
                 });
  }
  void complete(store::ClaimRef claim) {
    protocol::Completed ending;
    ending.status = 200;
    ending.response_schema = 1;
    ending.response = response_;
    store_.settle(std::move(claim), std::move(ending), inAMinute(),
                  [this](const store::WriteResult& result) {
                    if (result.outcome != store::WriteOutcome::Done) {
                      die("a completion failed: " + result.reason);
                    }
                    over();
                  });
  }
  void over() {
    if (steady_clock::now() < end_) {
      {
        const std::lock_guard lock(mutex_);
        ++lives_;
        --running_;
      }
      begin();
      return;
    }
    const std::lock_guard lock(mutex_);
    ++lives_;
    if (--running_ == 0) {
      idle_.notify_all();
    }
  }

  store::Store& store_;
  uint64_t& number_;
  const std::chrono::time_point<steady_clock, duration<double>> end_;
  const std::string response_ = std::string(ResponseBytes, 'r');
  std::mutex mutex_;
  std::condition_variable idle_;
  size_t running_ = 0;
  uint64_t lives_ = 0;
};

std::unique_ptr<sqlite::SqliteStore> makeStore(const std::string& path) {
  auto store = sqlite::SqliteStore::create({.path = path});
  if (!store.ok()) {
    die(std::string(store.status().message()));
  }
  return *std::move(store);
}

void livesRatio(const Options& options, const std::string& folder) {
  Naive naive(folder + "/naive.db");
  const std::unique_ptr<sqlite::SqliteStore> store = makeStore(folder + "/store.db");
  uint64_t naive_number = 0;
  uint64_t store_number = 0;
  Ratio ratio{.name = "sqlite_lives_vs_naive",
              .what =
                  "claim + completion (1 KiB), 64 in flight, against one durable transaction "
                  "per statement",
              .at_least = true,
              .bar = 10,
              .rounds = {},
              .detail = {}};
  std::vector<double> naive_lives;
  std::vector<double> store_lives;
  for (int round = 0; round < options.rounds; ++round) {
    naive_lives.push_back(naiveLives(naive, naive_number, options.seconds));
    store_lives.push_back(Load(*store, store_number, options.seconds).run());
    ratio.rounds.push_back(store_lives.back() / naive_lives.back());
  }
  ratio.detail =
      fmt::format("lives/s: {:.0f} against {:.0f}", median(store_lives), median(naive_lives));
  print(ratio);
}

// --- Memory of what waits

// The store cannot write while another connection holds the lock: everything waits.
class Lock {
public:
  explicit Lock(const std::string& path) {
    sqlite3_open(path.c_str(), &database_);
    sqlite3_busy_timeout(database_, 10'000);
    if (sqlite3_exec(database_, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) != SQLITE_OK) {
      die(sqlite3_errmsg(database_));
    }
  }
  ~Lock() { sqlite3_close(database_); }

private:
  sqlite3* database_ = nullptr;
};

void waitUntilOpen(store::Store& store) {
  std::atomic<bool> open{false};
  store.lookUp(identityOf(0), inAMinute(), [&](const store::LookUpResult&) { open = true; });
  while (!open) {
    std::this_thread::yield();
  }
}

void queueRatio(const Options& options, const std::string& folder) {
  constexpr uint64_t Operations = 4000;
  Ratio ratio{.name = "queued_bytes_overhead",
              .what =
                  "bytes of memory per queued operation beyond its own (half claims, half "
                  "completions)",
              .at_least = false,
              .bar = 1024,
              .rounds = {},
              .detail = {}};
  for (int round = 0; round < options.rounds; ++round) {
    const std::string path = fmt::format("{}/queue{}.db", folder, round);
    std::atomic<uint64_t> answers{0};
    const std::unique_ptr<sqlite::SqliteStore> store = makeStore(path);
    waitUntilOpen(*store);
    auto lock = std::make_unique<Lock>(path);
    uint64_t own_bytes = 0;
    resetAllocations();
    for (uint64_t number = 0; number < Operations; number += 2) {
      store::ClaimRequest claim;
      claim.identity = identityOf(number);
      claim.fingerprint = fingerprintOf(number);
      claim.attempt = store::newAttempt();
      const store::ClaimRef ref{claim.identity, claim.attempt};
      protocol::Completed completed;
      completed.response = std::string(ResponseBytes, 'r');
      const protocol::Identity& identity = claim.identity;
      own_bytes += 2 * (identity.tenant.size() + identity.operation.size() + identity.key.size()) +
                   claim.fingerprint.size() + completed.response.size();
      store->claim(std::move(claim), inAMinute(), [&](const store::ClaimResult&) { ++answers; });
      store->settle(ref, std::move(completed), inAMinute(),
                    [&](const store::WriteResult&) { ++answers; });
    }
    const uint64_t held = allocations().peak_bytes;
    lock.reset();
    while (answers < Operations) {
      std::this_thread::yield();
    }
    const double overhead =
        (static_cast<double>(held) - static_cast<double>(own_bytes)) / Operations;
    ratio.rounds.push_back(overhead);
  }
  ratio.detail = fmt::format("{} operations waiting", Operations);
  print(ratio);
}

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    if (std::strcmp(arguments[i], "--rounds") == 0) {
      options.rounds = std::atoi(arguments[i + 1]);
    } else if (std::strcmp(arguments[i], "--seconds") == 0) {
      options.seconds = std::atof(arguments[i + 1]);
    } else if (std::strcmp(arguments[i], "--folder") == 0) {
      options.folder = arguments[i + 1];
    } else {
      die(fmt::format("unknown option {}", arguments[i]));
    }
  }
  std::string folder = options.folder + "/sqlite-benchmark-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    die(fmt::format("cannot make a folder in {}", options.folder));
  }
  livesRatio(options, folder);
  queueRatio(options, folder);
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace idempotency::bench

int main(int count, char** arguments) {
  return idempotency::bench::main(count, arguments);
}
