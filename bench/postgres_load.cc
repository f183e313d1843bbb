// Drives a PostgresStore as hard as it can for a while and prints one number: operations (or
// microseconds for each, in modes `lone` and `claim_p50`), to be compared with what pgbench does on
// the same server, or with a server that holds more.
//
//   postgres_load CONNINFO MODE SECONDS IN_FLIGHT PREFIX
//
// MODE: lives (claim and completion with 1 KiB), claims, lone (one life at a time), seed (as many
// lives as `duplicates` asks for), duplicates (claims of keys that PREFIX's `seed` completed),
// claim_p50 (the median time of a claim; its keys fall anywhere among those that are stored).
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/ratio.h"
#include "source/store/postgres/postgres_store.h"

namespace idempotency {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr size_t BodySize = 1024;
// Duplicates are asked for among so many keys.
constexpr uint64_t DuplicateKeys = 10'000;
// Odd: spreads keys over the whole index, as clients' random ones are, and meets none twice.
constexpr uint64_t Spread = 0x9E3779B97F4A7C15;

class Load {
public:
  Load(store::Store& store, std::string mode, std::string prefix, Clock::time_point end)
      : store_(store), mode_(std::move(mode)), prefix_(std::move(prefix)), end_(end) {}

  void run(int in_flight) {
    running_ = in_flight;
    for (int i = 0; i < in_flight; ++i) {
      next();
    }
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return running_ == 0; });
  }

  uint64_t done() const { return done_; }
  uint64_t failed() const { return failed_; }
  std::string reason() const { return reason_; }
  double medianTime() const { return bench::median(times_); }

private:
  store::Deadline deadline() const { return Clock::now() + 10s; }

  void next() {
    const uint64_t number = count_.fetch_add(1, std::memory_order_relaxed);
    if (Clock::now() >= end_ || (mode_ == "seed" && number >= DuplicateKeys)) {
      const std::lock_guard lock(mutex_);
      if (--running_ == 0) {
        ended_.notify_all();
      }
      return;
    }
    store::ClaimRequest request;
    const bool duplicates = mode_ == "duplicates";
    request.identity = {"tenant", "create-payment", key(number)};
    request.fingerprint = std::string(33, 'f');
    request.attempt = store::newAttempt();
    const store::ClaimRef ref{request.identity, request.attempt};
    const auto start = Clock::now();
    store_.claim(
        std::move(request), deadline(), [this, ref, duplicates, start](store::ClaimResult result) {
          times_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
          onClaim(ref, duplicates, std::move(result));
        });
  }

  std::string key(uint64_t number) const {
    if (mode_ == "claim_p50") {
      return fmt::format("{:016x}-{}", number * Spread, prefix_);
    }
    return fmt::format("{}-{:027}", prefix_,
                       mode_ == "duplicates" ? number * 7919 % DuplicateKeys
                       : mode_ == "seed"     ? number
                                             : number * Spread);
  }

  void onClaim(const store::ClaimRef& ref, bool duplicates, store::ClaimResult result) {
    const auto* const exists = std::get_if<store::Exists>(&result);
    const bool good = duplicates ? exists != nullptr && exists->record.response.has_value() &&
                                       exists->record.response->size() == BodySize
                                 : std::holds_alternative<store::Claimed>(result);
    if (!good) {
      return count(false, std::holds_alternative<store::Unavailable>(result)
                              ? std::get<store::Unavailable>(result).reason
                              : fmt::format("result {}", result.index()));
    }
    if (duplicates || mode_ == "claims" || mode_ == "claim_p50") {
      return count(true, "");
    }
    protocol::Completed completed;
    completed.status = 201;
    completed.response_schema = 1;
    completed.response.assign(BodySize, 'r');
    store_.settle(ref, std::move(completed), deadline(), [this](const store::WriteResult& written) {
      count(written.outcome == store::WriteOutcome::Done, written.reason);
    });
  }

  void count(bool good, const std::string& reason) {
    if (good) {
      done_.fetch_add(1, std::memory_order_relaxed);
    } else {
      failed_.fetch_add(1, std::memory_order_relaxed);
      reason_ = reason;
    }
    if (mode_ == "lone") {
      // The next one starts on another thread, as a worker's would.
      {
        const std::lock_guard lock(mutex_);
        ready_ = true;
      }
      turn_.notify_one();
    } else {
      next();
    }
  }

public:
  // One at a time, each started from this thread.
  void runAlone() {
    running_ = 1;
    while (Clock::now() < end_) {
      next();
      std::unique_lock lock(mutex_);
      turn_.wait(lock, [this] { return ready_; });
      ready_ = false;
    }
  }

private:
  store::Store& store_;
  const std::string mode_;
  const std::string prefix_;
  const Clock::time_point end_;
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> failed_{0};
  std::string reason_;         // Of one that failed; written on the store's thread.
  std::vector<double> times_;  // Of claims, in microseconds; likewise.
  std::mutex mutex_;
  std::condition_variable ended_;
  std::condition_variable turn_;
  int running_ = 0;
  bool ready_ = false;
};

int run(int count, char** words) {
  if (count != 6) {
    std::fprintf(stderr, "usage: postgres_load CONNINFO MODE SECONDS IN_FLIGHT PREFIX\n");
    return 2;
  }
  postgres::PostgresStoreOptions options;
  options.postgres.conninfo = words[1];
  options.postgres.timeout = 10s;
  if (const char* const connections = std::getenv("CONNECTIONS")) {
    options.postgres.connections = static_cast<uint32_t>(std::atoi(connections));
  }
  auto store = postgres::PostgresStore::create(options);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  while ((*store)->stats().connections_up < options.postgres.connections) {
    std::this_thread::sleep_for(1ms);
  }
  const std::string mode = words[2];
  const auto start = Clock::now();
  const auto time = std::chrono::duration<double>(std::atof(words[3]));
  Load load(**store, mode, words[5], start + std::chrono::duration_cast<Clock::duration>(time));
  if (mode == "lone") {
    load.runAlone();
  } else {
    load.run(std::atoi(words[4]));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (load.failed() > 0) {
    std::fprintf(stderr, "%lu failed: %s\n", load.failed(), load.reason().c_str());
    return 1;
  }
  const auto stats = (*store)->stats();
  store->reset();  // Its thread may still be on its way out of a callback into `load`.
  std::fprintf(stderr, "%.1f operations in a batch\n",
               static_cast<double>(stats.operations) / static_cast<double>(stats.batches));
  const double done = static_cast<double>(load.done());
  std::printf("%.3f\n", mode == "lone"        ? seconds * 1e6 / done
                        : mode == "claim_p50" ? load.medianTime()
                                              : done / seconds);
  return 0;
}

}  // namespace
}  // namespace idempotency

int main(int count, char** words) {
  return idempotency::run(count, words);
}
