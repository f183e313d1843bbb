// Whole fingerprints beside plain SHA-256 of the same bytes. As it is, Google Benchmark's table
// with all bodies and modes; with --rounds N, the bars, for bench/run.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/json_bodies.h"
#include "bench/ratio.h"
#include "source/fingerprint/canonical_json.h"
#include "source/fingerprint/fingerprint.h"
#include "source/fingerprint/sha256.h"
#include "test/support/allocation_counter.h"

namespace idempotency {
namespace {

using Clock = std::chrono::steady_clock;

fingerprint::FingerprintResult fingerprintOf(std::string_view body,
                                             const fingerprint::FingerprintRules& rules) {
  const std::array<fingerprint::RequestHeader, 2> headers = {
      {{"content-type", "application/json"}, {"idempotency-key", "\"8e03978e-40d5-43dd\""}}};
  return *fingerprint::computeFingerprint({.method = "POST",
                                           .scheme = "https",
                                           .authority = "api.example.com",
                                           .path = "/v1/orders?dry_run=false",
                                           .content_type = "application/json",
                                           .headers = headers,
                                           .body = {&body, 1}},
                                          rules);
}

void plainSha256(std::string_view body) {
  fingerprint::Sha256 sha;
  sha.update(body);
  benchmark::DoNotOptimize(sha.finish());
}

struct Times {
  double fingerprint_ns = 0;
  double sha256_ns = 0;
};

// Both in turns, in batches that take some microseconds, so that both meet the same machine.
Times timeBoth(const std::string& body, const fingerprint::FingerprintRules& rules) {
  const auto batch = static_cast<int>(std::max<size_t>(1, 20000 / body.size()));
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < batch; ++i) {
    benchmark::DoNotOptimize(fingerprintOf(body, rules));
  }
  const Clock::time_point middle = Clock::now();
  for (int i = 0; i < batch; ++i) {
    plainSha256(body);
  }
  const Clock::time_point end = Clock::now();
  const auto each = [batch](Clock::duration duration) {
    return std::chrono::duration<double, std::nano>(duration).count() / batch;
  };
  return {each(middle - start), each(end - middle)};
}

// The most memory that a fingerprint holds at one time, in times of the body. For short bodies it
// is on the stack: counted is the part of it that is used.
double memoryRatio(const std::string& body, const fingerprint::FingerprintRules& rules) {
  resetAllocations();
  benchmark::DoNotOptimize(fingerprintOf(body, rules));
  const size_t on_stack = rules.mode != fingerprint::FingerprintMode::Raw &&
                                  body.size() <= fingerprint::CanonicalJson::InlineSize
                              ? fingerprint::canonicalJsonWords(body.size()) * sizeof(uint32_t)
                              : 0;
  return static_cast<double>(allocations().peak_bytes + on_stack) /
         static_cast<double>(body.size());
}

void compareWithSha256(benchmark::State& state, const std::string& body,
                       const fingerprint::FingerprintRules& rules) {
  std::vector<double> ratios;
  std::vector<double> sha256_times;
  for (auto _ : state) {
    const Times times = timeBoth(body, rules);
    state.SetIterationTime(times.fingerprint_ns * 1e-9);
    ratios.push_back(times.fingerprint_ns / times.sha256_ns);
    sha256_times.push_back(times.sha256_ns);
  }
  state.counters["body_bytes"] = static_cast<double>(body.size());
  state.counters["sha256_ns"] = bench::median(sha256_times);
  state.counters["ratio"] = bench::median(ratios);
  state.counters["memory_ratio"] = memoryRatio(body, rules);
}

fingerprint::JsonPointerSet pointers(const std::vector<std::string>& texts) {
  fingerprint::JsonPointerSet set;
  for (const std::string& text : texts) {
    set.push_back(*fingerprint::JsonPointer::parse(text));
  }
  return set;
}

void compact(benchmark::State& state) {
  compareWithSha256(state, orderBody(static_cast<size_t>(state.range(0))), {});
}
void pretty(benchmark::State& state) {
  compareWithSha256(state, prettyOrderBody(static_cast<size_t>(state.range(0))), {});
}
void raw(benchmark::State& state) {
  compareWithSha256(state, orderBody(static_cast<size_t>(state.range(0))),
                    {.mode = fingerprint::FingerprintMode::Raw});
}
void selected(benchmark::State& state) {
  compareWithSha256(state, orderBody(static_cast<size_t>(state.range(0))),
                    {.mode = fingerprint::FingerprintMode::Selected,
                     .pointers = pointers({"/total", "/currency", "/customer/id"})});
}
void excluded(benchmark::State& state) {
  compareWithSha256(state, orderBody(static_cast<size_t>(state.range(0))),
                    {.exclude_pointers = pointers({"/order_id", "/customer/email"})});
}

BENCHMARK(compact)->UseManualTime()->Arg(200)->Arg(2048)->Arg(65536)->Arg(1 << 20);
BENCHMARK(pretty)->UseManualTime()->Arg(200)->Arg(2048)->Arg(65536)->Arg(1 << 20);
BENCHMARK(raw)->UseManualTime()->Arg(200)->Arg(2048)->Arg(65536)->Arg(1 << 20);
BENCHMARK(selected)->UseManualTime()->Arg(2048)->Arg(65536);
BENCHMARK(excluded)->UseManualTime()->Arg(2048)->Arg(65536);

// A round is the median of many short turns: what else runs on the machine hits few of them.
bench::Ratio timeBar(const std::string& name, const std::string& body, double bar, int rounds) {
  constexpr int Turns = 500;
  bench::Ratio ratio = {.name = "fingerprint_time_" + name,
                        .what = "canonical fingerprint / plain SHA-256 of the same bytes",
                        .at_least = false,
                        .bar = bar,
                        .rounds = {},
                        .detail = {}};
  std::vector<double> fingerprint_times;
  std::vector<double> sha256_times;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> turns;
    for (int turn = 0; turn < Turns; ++turn) {
      const Times times = timeBoth(body, {});
      turns.push_back(times.fingerprint_ns / times.sha256_ns);
      fingerprint_times.push_back(times.fingerprint_ns);
      sha256_times.push_back(times.sha256_ns);
    }
    ratio.rounds.push_back(bench::median(turns));
  }
  ratio.detail = fmt::format("{} bytes: {:.0f} ns, SHA-256 {:.0f} ns", body.size(),
                             bench::median(fingerprint_times), bench::median(sha256_times));
  return ratio;
}

bench::Ratio memoryBar(const std::string& name, const std::string& body) {
  const double ratio = memoryRatio(body, {});
  return {.name = "fingerprint_memory_" + name,
          .what = "most memory held / body",
          .at_least = false,
          .bar = 3,
          .rounds = {ratio},
          .detail = fmt::format("{} bytes", body.size())};
}

void printBars(int rounds) {
  bench::print(timeBar("2k", orderBody(2048), 4, rounds));
  bench::print(timeBar("2k_pretty", prettyOrderBody(2048), 4, rounds));
  bench::print(timeBar("64k", orderBody(65536), 4, rounds));
  bench::print(memoryBar("2k", orderBody(2048)));
  bench::print(memoryBar("64k", orderBody(65536)));
  bench::print(memoryBar("1m", orderBody(1 << 20)));
}

}  // namespace
}  // namespace idempotency

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--rounds") {
    idempotency::printBars(std::atoi(argv[2]));
    return EXIT_SUCCESS;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}
