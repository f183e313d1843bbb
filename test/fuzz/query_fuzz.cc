// The input is a path with a query, or a content type. Sorting keeps every parameter and is done
// after once.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/media_type.h"
#include "source/fingerprint/query.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

std::vector<std::string_view> parameters(std::string_view query) {
  std::vector<std::string_view> list;
  for (size_t end = 0; end != std::string_view::npos; query.remove_prefix(end + 1)) {
    end = query.find('&');
    list.push_back(query.substr(0, end));
    if (end == std::string_view::npos) {
      break;
    }
  }
  return list;
}

void check(std::string_view input) {
  const SplitPath split = splitPath(input);
  FUZZ_CHECK(split.query.has_value() == (input.find('?') != std::string_view::npos));
  if (split.query.has_value()) {
    FUZZ_CHECK(std::string(split.path) + "?" + std::string(*split.query) == input);
    std::string scratch;
    const std::string sorted(sortedQuery(*split.query, scratch));
    std::vector<std::string_view> before = parameters(*split.query);
    const std::vector<std::string_view> after = parameters(sorted);
    std::stable_sort(before.begin(), before.end(), [](std::string_view a, std::string_view b) {
      return a.substr(0, a.find('=')) < b.substr(0, b.find('='));
    });
    FUZZ_CHECK(before == after);
    std::string again;
    FUZZ_CHECK(sortedQuery(sorted, again) == sorted);
  }
  std::string scratch;
  const std::string normal(normalMediaType(input, scratch));
  FUZZ_CHECK(normal.size() <= input.size());
  std::string again;
  FUZZ_CHECK(normalMediaType(normal, again) == normal);
  FUZZ_CHECK(isJsonMediaType(normal) == isJsonMediaType(input));
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  idempotency::check(idempotency::fuzzText(data, size));
  return 0;
}
