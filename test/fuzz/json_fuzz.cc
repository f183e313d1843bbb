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
  const std::string problem = fingerprint::disagreement(text);
  if (!problem.empty()) {
    std::fprintf(stderr, "%s\n", problem.c_str());
  }
  FUZZ_CHECK(problem.empty());
}

// The canonical form is its own, and its size is known before it is written.
void checkCanonical(const fingerprint::CanonicalJson& json) {
  const std::string canonical = fingerprint::written(json, json.whole());
  FUZZ_CHECK(canonical.size() == json.size(json.whole()));
  const std::string_view view = canonical;
  fingerprint::CanonicalJson again;
  FUZZ_CHECK(again.read({&view, 1}) == fingerprint::JsonRejection::None);
  FUZZ_CHECK(fingerprint::written(again, again.whole()) == canonical);
}

// Plain RFC 8785 rejects less, and gives the same where nothing is rounded.
void checkRounded(std::string_view text, const fingerprint::CanonicalJson& json,
                  fingerprint::JsonRejection rejection) {
  fingerprint::CanonicalJson rounded(fingerprint::NumberRule::Rounded);
  const fingerprint::JsonRejection other = rounded.read({&text, 1});
  if (rejection == fingerprint::JsonRejection::None) {
    FUZZ_CHECK(other == fingerprint::JsonRejection::None);
    FUZZ_CHECK(fingerprint::written(json, json.whole()) ==
               fingerprint::written(rounded, rounded.whole()));
  }
  if (other == fingerprint::JsonRejection::None) {
    FUZZ_CHECK(rejection == fingerprint::JsonRejection::None ||
               rejection == fingerprint::JsonRejection::InexactNumber);
    checkCanonical(rounded);
  }
}

// Where slices are cut does not matter.
void checkSlices(std::string_view text, const fingerprint::CanonicalJson& json,
                 fingerprint::JsonRejection rejection) {
  const size_t cut = text.size() / 3;
  const std::vector<std::string_view> body = {text.substr(0, cut), "", text.substr(cut)};
  fingerprint::CanonicalJson sliced;
  FUZZ_CHECK(sliced.read(body) == rejection);
  if (rejection == fingerprint::JsonRejection::None) {
    FUZZ_CHECK(fingerprint::written(sliced, sliced.whole()) ==
               fingerprint::written(json, json.whole()));
  }
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const std::string_view text = fuzzText(data, size);
  fingerprint::CanonicalJson json;
  const fingerprint::JsonRejection rejection = json.read({&text, 1});
  FUZZ_CHECK(rejection != fingerprint::JsonRejection::TooLarge);
  if (rejection == fingerprint::JsonRejection::None) {
    checkCanonical(json);
  }
  checkRounded(text, json, rejection);
  checkSlices(text, json, rejection);
  checkAgainstOracle(text);
  return 0;
}
