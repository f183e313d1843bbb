// What it costs to read a key. The counter `allocations` must be 0: the program fails otherwise.

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "benchmark/benchmark.h"

#include "source/key/key.h"
#include "test/support/allocation_counter.h"

namespace idempotency {
namespace {

size_t all_allocations = 0;

enum class Want : uint8_t { Accepted, Refused };

// Reads the same header line again and again.
void parse(benchmark::State& state, const std::string& line, const key::KeyRules& rules,
           Want want) {
  const std::array<std::string_view, 1> lines = {line};
  if (std::holds_alternative<key::Key>(key::parseKey(lines, rules)) != (want == Want::Accepted)) {
    state.SkipWithError("the line is not read as meant");
    return;
  }
  resetAllocations();
  for (auto _ : state) {
    key::KeyResult result = key::parseKey(lines, rules);
    benchmark::DoNotOptimize(result);
  }
  const size_t calls = allocations().calls;
  all_allocations += calls;
  state.counters["allocations"] = static_cast<double>(calls);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * line.size()));
}

const std::string Uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324";
const std::string QuotedUuid = '"' + Uuid + '"';
const std::string Longest(key::KeyLengthLimit, 'k');
const std::string QuotedLongest = '"' + Longest + '"';
const std::string WithParameters = QuotedUuid + ";v=1;source=\"checkout\"";
const std::string Escapes = "\"order \\\"4711\\\" of \\\\shop\\\\ 12\"";
const std::string Oversized = '"' + std::string(60000, 'k') + '"';

constexpr key::KeyRules Strict = {.syntax = key::KeySyntax::Strict};
constexpr key::KeyRules StrictUuid = {.syntax = key::KeySyntax::Strict, .uuid_only = true};
constexpr key::KeyRules Raw = {.syntax = key::KeySyntax::Raw};
constexpr key::KeyRules RawUuid = {.syntax = key::KeySyntax::Raw, .uuid_only = true};
constexpr key::KeyRules Either = {.syntax = key::KeySyntax::Either};

BENCHMARK_CAPTURE(parse, strict_uuid, QuotedUuid, Strict, Want::Accepted);
BENCHMARK_CAPTURE(parse, strict_uuid_only, QuotedUuid, StrictUuid, Want::Accepted);
BENCHMARK_CAPTURE(parse, strict_parameters, WithParameters, Strict, Want::Accepted);
BENCHMARK_CAPTURE(parse, strict_escapes, Escapes, Strict, Want::Accepted);
BENCHMARK_CAPTURE(parse, strict_255, QuotedLongest, Strict, Want::Accepted);
BENCHMARK_CAPTURE(parse, strict_refused_bare, Uuid, Strict, Want::Refused);
BENCHMARK_CAPTURE(parse, strict_refused_60000, Oversized, Strict, Want::Refused);
BENCHMARK_CAPTURE(parse, raw_uuid, Uuid, Raw, Want::Accepted);
BENCHMARK_CAPTURE(parse, raw_uuid_only, Uuid, RawUuid, Want::Accepted);
BENCHMARK_CAPTURE(parse, raw_255, Longest, Raw, Want::Accepted);
BENCHMARK_CAPTURE(parse, either_quoted_uuid, QuotedUuid, Either, Want::Accepted);
BENCHMARK_CAPTURE(parse, either_bare_uuid, Uuid, Either, Want::Accepted);

}  // namespace
}  // namespace idempotency

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
  return idempotency::all_allocations == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
