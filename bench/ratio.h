#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "fmt/format.h"

namespace idempotency::bench {

// What a benchmark program tells bench/run: one line of JSON for each ratio.
struct Ratio {
  std::string name;
  std::string what;
  bool at_least = true;  // The bar is a lower bound; else an upper one.
  double bar = 0;
  std::vector<double> rounds;  // The ratio of each interleaved round.
  std::string detail;          // The figures behind it, for people.
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

inline void print(const Ratio& ratio) {
  const double value = median(ratio.rounds);
  const bool met = ratio.at_least ? value >= ratio.bar : value <= ratio.bar;
  std::string rounds;
  for (const double round : ratio.rounds) {
    rounds += fmt::format("{}{:.3f}", rounds.empty() ? "" : ", ", round);
  }
  fmt::print(
      "{{\"name\": \"{}\", \"value\": {:.3f}, \"bar\": \"{} {}\", \"met\": {}, \"rounds\": [{}], "
      "\"what\": \"{}\", \"detail\": \"{}\"}}\n",
      ratio.name, value, ratio.at_least ? ">=" : "<=", ratio.bar, met, rounds, ratio.what,
      ratio.detail);
  std::fflush(stdout);
}

}  // namespace idempotency::bench
