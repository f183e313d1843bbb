// The input is a path with a query.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/fingerprint/query.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

std::vector<std::string> split(std::string_view query) {
  std::vector<std::string> parameters;
  for (size_t begin = 0; begin <= query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    parameters.emplace_back(query.substr(begin, end - begin));
    begin = end + 1;
  }
  return parameters;
}

std::string join(const std::vector<std::string>& parameters) {
  std::string query;
  for (const std::string& parameter : parameters) {
    query += parameter + '&';
  }
  query.pop_back();
  return query;
}

std::string nameOf(const std::string& parameter) {
  return parameter.substr(0, parameter.find('='));
}

// --- Version 1: sorted by name, whatever the names are.

void checkVersionOne(std::string_view query) {
  std::map<std::string, std::vector<std::string>> by_name;
  for (const std::string& parameter : split(query)) {
    by_name[nameOf(parameter)].push_back(parameter);
  }
  std::vector<std::string> wanted;
  for (const auto& [name, parameters] : by_name) {
    wanted.insert(wanted.end(), parameters.begin(), parameters.end());
  }
  std::string scratch;
  const std::string sorted(fingerprint::sortedQuery(query, scratch));
  FUZZ_CHECK(sorted == join(wanted));
  FUZZ_CHECK(fingerprint::sortedQuery(sorted, scratch) == sorted);
}

// --- Version 2: what clients are promised, said of pairs of queries.

// What is hashed: the text, and whether it is as sent.
using Hashed = std::pair<std::string, bool>;

Hashed normal(std::string_view query,
              fingerprint::QueryOrder order = fingerprint::QueryOrder::Sorted) {
  std::string scratch;
  const fingerprint::NormalQuery result = fingerprint::normalQuery(query, order, scratch);
  return {std::string(result.text), result.as_sent};
}

// No server that we know takes two such names for one, or builds lists from them.
bool isPlain(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// A name that the order of its parameters may give a meaning beyond its own.
bool isStructured(const std::string& name) {
  return name.find_first_of("[]%+") != std::string::npos;
}

// Equal for names that some server takes for one: names in any case, `.` as `_`.
std::string asServersMay(std::string name) {
  for (char& c : name) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    c = c == '.' ? '_' : c;
  }
  return name;
}

// Each pair of neighbours, exchanged.
void checkSwaps(const std::vector<std::string>& parameters, bool structured) {
  const std::string query = join(parameters);
  for (size_t i = 0; i + 1 < parameters.size(); ++i) {
    std::vector<std::string> swapped = parameters;
    std::swap(swapped[i], swapped[i + 1]);
    const bool changed = swapped[i] != swapped[i + 1];
    const std::string a = nameOf(swapped[i]);
    const std::string b = nameOf(swapped[i + 1]);
    const bool same = normal(join(swapped)) == normal(query);
    if (changed && (structured || asServersMay(a) == asServersMay(b))) {
      FUZZ_CHECK(!same);
    } else if (!structured && a != b && isPlain(a) && isPlain(b)) {
      FUZZ_CHECK(same);
    }
    FUZZ_CHECK((normal(join(swapped), fingerprint::QueryOrder::AsSent) ==
                normal(query, fingerprint::QueryOrder::AsSent)) == !changed);
  }
}

void checkVersionTwo(std::string_view query) {
  const std::vector<std::string> parameters = split(query);
  const bool structured =
      query.find(';') != std::string_view::npos ||
      std::any_of(parameters.begin(), parameters.end(),
                  [](const std::string& parameter) { return isStructured(nameOf(parameter)); });
  const Hashed hashed = normal(query);
  FUZZ_CHECK(hashed.second == structured);
  FUZZ_CHECK(!structured || hashed.first == query);
  FUZZ_CHECK(normal(query, fingerprint::QueryOrder::AsSent) == Hashed(query, true));
  // Nothing is dropped, added or changed.
  std::vector<std::string> before = parameters;
  std::vector<std::string> after = split(hashed.first);
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  FUZZ_CHECK(before == after);
  checkSwaps(parameters, structured);
  // One parameter more or less is another query.
  FUZZ_CHECK(normal(std::string(query) + "&") != hashed);
  FUZZ_CHECK(normal(std::string(query) + "&" + parameters.front()) != hashed);
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const std::string text(fuzzText(data, size));
  const fingerprint::SplitPath split = fingerprint::splitPath(text);
  FUZZ_CHECK(split.path.find('?') == std::string_view::npos);
  if (!split.query.has_value()) {
    FUZZ_CHECK(split.path == text);
    return 0;
  }
  FUZZ_CHECK(std::string(split.path) + "?" + std::string(*split.query) == text);
  checkVersionOne(*split.query);
  // The swaps make this quadratic.
  if (split.query->size() <= 512) {
    checkVersionTwo(*split.query);
  }
  return 0;
}
