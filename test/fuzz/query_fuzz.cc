// The input is a path with a query.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/query.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

using Parameters = std::map<std::string, std::vector<std::string>>;

// Each name's parameters in their order: what sorting must not change.
Parameters parametersOf(std::string_view query) {
  Parameters parameters;
  for (size_t begin = 0; begin <= query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const std::string parameter(query.substr(begin, end - begin));
    parameters[parameter.substr(0, parameter.find('='))].push_back(parameter);
    begin = end + 1;
  }
  return parameters;
}

std::string joined(const Parameters& parameters) {
  std::string query;
  for (const auto& [name, values] : parameters) {
    for (const std::string& value : values) {
      query += value + '&';
    }
  }
  query.pop_back();
  return query;
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const std::string text(fuzzText(data, size));
  const SplitPath split = splitPath(text);
  FUZZ_CHECK(split.path.find('?') == std::string_view::npos);
  if (!split.query.has_value()) {
    FUZZ_CHECK(split.path == text);
    return 0;
  }
  FUZZ_CHECK(std::string(split.path) + "?" + std::string(*split.query) == text);
  std::string scratch;
  const std::string sorted(sortedQuery(*split.query, scratch));
  FUZZ_CHECK(sorted == joined(parametersOf(*split.query)));
  FUZZ_CHECK(sortedQuery(sorted, scratch) == sorted);
  return 0;
}
