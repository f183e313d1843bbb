#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::bench {

using Clock = std::chrono::steady_clock;

// What the load is made of, as the command line says.
struct PlanOptions {
  uint16_t port = 0;
  std::string path = "/payments/200";
  size_t body = 200;  // Bytes of the request's body.
  int connections = 64;
  int streams = 1;  // Requests at a time on a connection; more than one needs HTTP/2.
  bool http2 = false;
  double seconds = 3;  // How long requests are started.
  uint64_t count = 0;  // At most so many requests; 0: no such limit.
  bool keyed = true;   // Whether requests have a key at all.
  std::string prefix = "load";
  uint64_t pool = 0;      // Keys are taken in turn from so many; 0: every key is new.
  double duplicates = 0;  // Share of requests that take a key of the pool, the rest are new.
  int status = 201;       // What every answer must have.
  std::string header;     // A header that every answer must have; empty: none.
};

// Decides what is sent and notes what came back. One thread.
class Plan {
public:
  explicit Plan(PlanOptions options);

  const PlanOptions& options() const { return options_; }
  const std::string& body() const { return body_; }

  void start();
  // False: nothing more is to be sent. Counts the request that the caller then sends.
  bool take();
  // The key of the next request, as the header has it.
  std::string nextKey();

  void onAnswer(Clock::time_point sent, int status, bool has_header);
  // A connection that ended, or an answer that cannot be read: the run is worth nothing.
  void onFailure(std::string_view reason);

  bool failed() const { return !failure_.empty(); }
  uint64_t outstanding() const { return taken_ - answered_; }
  Clock::time_point end() const { return end_; }
  // One line of JSON.
  std::string report();

private:
  const PlanOptions options_;
  std::string body_;
  std::mt19937_64 random_;
  Clock::time_point begin_;
  Clock::time_point end_;
  uint64_t taken_ = 0;
  uint64_t answered_ = 0;
  uint64_t fresh_ = 0;
  uint64_t pooled_ = 0;
  uint64_t in_time_ = 0;             // Answers that came before the end.
  std::vector<uint32_t> latencies_;  // Microseconds.
  std::string failure_;
};

}  // namespace idempotency::bench
