// The input is a body. It is made canonical, and simdjson is asked whether that is right.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/canonical_json.h"
#include "test/fingerprint/canonicalize.h"
#include "test/fingerprint/json_oracle.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

void checkAgainstOracle(std::string_view text) {
  const std::string problem = disagreement(text);
  if (!problem.empty()) {
    std::fprintf(stderr, "%s\n", problem.c_str());
  }
  FUZZ_CHECK(problem.empty());
}

// The canonical form is its own, and its size is known before it is written.
void checkCanonical(const CanonicalJson& json) {
  const std::string canonical = written(json, json.whole());
  FUZZ_CHECK(canonical.size() == json.size(json.whole()));
  const std::string_view view = canonical;
  CanonicalJson again;
  FUZZ_CHECK(again.read({&view, 1}) == JsonRejection::None);
  FUZZ_CHECK(written(again, again.whole()) == canonical);
}

// Plain RFC 8785 rejects less, and gives the same where nothing is rounded.
void checkRounded(std::string_view text, const CanonicalJson& json, JsonRejection rejection) {
  CanonicalJson rounded(NumberRule::Rounded);
  const JsonRejection other = rounded.read({&text, 1});
  if (rejection == JsonRejection::None) {
    FUZZ_CHECK(other == JsonRejection::None);
    FUZZ_CHECK(written(json, json.whole()) == written(rounded, rounded.whole()));
  }
  if (other == JsonRejection::None) {
    FUZZ_CHECK(rejection == JsonRejection::None || rejection == JsonRejection::InexactNumber);
    checkCanonical(rounded);
  }
}

// Where slices are cut does not matter.
void checkSlices(std::string_view text, const CanonicalJson& json, JsonRejection rejection) {
  const size_t cut = text.size() / 3;
  const std::vector<std::string_view> body = {text.substr(0, cut), "", text.substr(cut)};
  CanonicalJson sliced;
  FUZZ_CHECK(sliced.read(body) == rejection);
  if (rejection == JsonRejection::None) {
    FUZZ_CHECK(written(sliced, sliced.whole()) == written(json, json.whole()));
  }
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const std::string_view text = fuzzText(data, size);
  CanonicalJson json;
  const JsonRejection rejection = json.read({&text, 1});
  FUZZ_CHECK(rejection != JsonRejection::TooLarge);
  if (rejection == JsonRejection::None) {
    checkCanonical(json);
  }
  checkRounded(text, json, rejection);
  checkSlices(text, json, rejection);
  checkAgainstOracle(text);
  return 0;
}
