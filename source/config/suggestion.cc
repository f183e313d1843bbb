#include "source/config/suggestion.h"

#include <algorithm>
#include <vector>

#include "source/http/header_names.h"

namespace idempotency::config {
namespace {

// Longer names are not misspelled ones. The comparison takes quadratic time.
constexpr size_t MaxCompared = 64;

std::string plain(std::string_view name) {
  std::string text = http::toLower(name);
  std::erase_if(text, [](char c) { return c == '_' || c == '-'; });
  return text;
}

// How many characters to insert, to remove, to replace or to swap with the next one, until both are
// the same.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<std::string_view> closestName(std::string_view given,
                                            std::span<const std::string> names) {
  if (given.size() > MaxCompared) {
    return std::nullopt;
  }
  const std::string wanted = plain(given);
  std::optional<std::string_view> closest;
  size_t least = wanted.size() / 3 + 1;  // Of three characters, one may be wrong.
  for (const std::string& name : names) {
    const size_t errors = distance(wanted, plain(name));
    if (errors < least) {
      least = errors;
      closest = name;
    } else if (errors == least) {
      closest.reset();
    }
  }
  return closest;
}

}  // namespace idempotency::config
