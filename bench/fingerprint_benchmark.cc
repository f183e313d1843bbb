#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/json_bodies.h"
#include "source/fingerprint/fingerprint.h"
#include "source/fingerprint/sha256.h"

namespace idempotency {
namespace {

using Clock = std::chrono::steady_clock;

FingerprintResult fingerprintOf(std::string_view body, const FingerprintRules& rules) {
  const std::vector<RequestHeader> headers = {{"content-type", "application/json"}};
  const RequestParts parts = {.method = "POST",
                              .path = "/v1/orders?dry_run=false",
                              .content_type = "application/json",
                              .headers = headers,
                              .principal = {},
                              .body = {&body, 1}};
  return *computeFingerprint(parts, rules);
}

double nanoseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Times whole fingerprints and plain SHA-256 of the same bytes in turns, so that both meet the same
// machine, and reports the median of the ratios of neighbours.
void compareWithSha256(benchmark::State& state, const std::string& body,
                       const FingerprintRules& rules) {
  const int batch = static_cast<int>(std::max<size_t>(1, 20000 / body.size()));
  std::vector<double> ratios;
  std::vector<double> sha_times;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < batch; ++i) {
      benchmark::DoNotOptimize(fingerprintOf(body, rules));
    }
    const Clock::time_point middle = Clock::now();
    for (int i = 0; i < batch; ++i) {
      Sha256 sha;
      sha.update(body);
      benchmark::DoNotOptimize(sha.finish());
    }
    const Clock::time_point end = Clock::now();
    state.SetIterationTime(nanoseconds(middle - start) / batch * 1e-9);
    ratios.push_back(nanoseconds(middle - start) / nanoseconds(end - middle));
    sha_times.push_back(nanoseconds(end - middle) / batch);
  }
  state.counters["body_bytes"] = static_cast<double>(body.size());
  state.counters["sha256_ns"] = median(sha_times);
  state.counters["ratio"] = median(ratios);
}

void fingerprintCompact(benchmark::State& state) {
  compareWithSha256(state, orderBody(static_cast<size_t>(state.range(0))), {});
}

void fingerprintPretty(benchmark::State& state) {
  compareWithSha256(state, prettyOrderBody(static_cast<size_t>(state.range(0))), {});
}

void fingerprintRaw(benchmark::State& state) {
  compareWithSha256(state, orderBody(static_cast<size_t>(state.range(0))),
                    {.mode = FingerprintMode::Raw});
}

BENCHMARK(fingerprintCompact)->UseManualTime()->Arg(200)->Arg(2048)->Arg(65536);
BENCHMARK(fingerprintPretty)->UseManualTime()->Arg(200)->Arg(2048)->Arg(65536);
BENCHMARK(fingerprintRaw)->UseManualTime()->Arg(200)->Arg(2048)->Arg(65536);

}  // namespace
}  // namespace idempotency

BENCHMARK_MAIN();
