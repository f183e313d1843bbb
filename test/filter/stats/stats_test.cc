// Every statistic is explained in docs/stats.md, and nothing else is.
#include "source/filter/stats/stats.h"

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

#include "source/filter/stats/operator_stats.h"

namespace idempotency::filter {
namespace {

std::set<std::string> definedNames() {
  // hooks.cc defines this one for every module.
  std::set<std::string> names = {"hook_exception"};
#define IDEMPOTENCY_NAME(member, name) names.insert(name);
#define IDEMPOTENCY_LABELLED_NAME(member, name, label) names.insert(name);
#define IDEMPOTENCY_OPERATOR_NAME(member, name, ...) names.insert(name);
  IDEMPOTENCY_ANSWER_COUNTERS(IDEMPOTENCY_NAME)
  IDEMPOTENCY_COUNTERS(IDEMPOTENCY_NAME)
  IDEMPOTENCY_GAUGES(IDEMPOTENCY_NAME)
  IDEMPOTENCY_HISTOGRAMS(IDEMPOTENCY_NAME)
  IDEMPOTENCY_LABELLED_COUNTERS(IDEMPOTENCY_LABELLED_NAME)
  IDEMPOTENCY_LABELLED_GAUGES(IDEMPOTENCY_LABELLED_NAME)
  IDEMPOTENCY_OPERATOR_COUNTERS(IDEMPOTENCY_OPERATOR_NAME)
#undef IDEMPOTENCY_NAME
#undef IDEMPOTENCY_LABELLED_NAME
#undef IDEMPOTENCY_OPERATOR_NAME
  return names;
}

// Names in the first column of the page's tables.
std::set<std::string> documentedNames() {
  std::ifstream file("docs/stats.md");
  EXPECT_TRUE(file.good()) << "docs/stats.md";
  std::set<std::string> names;
  const std::regex row(R"(^\| `([a-z_.]+)`.*)");
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, row)) {
      names.insert(match[1]);
    }
  }
  return names;
}

TEST(StatsTest, PageNamesExactlyWhatIsDefined) {
  EXPECT_EQ(documentedNames(), definedNames());
}

}  // namespace
}  // namespace idempotency::filter
