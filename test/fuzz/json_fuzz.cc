// The input is a body that claims to be JSON. Our reader and simdjson take the same texts, apart
// from what we refuse on purpose, and a canonical form is its own canonical form.

#include <memory>
#include <string>
#include <string_view>

#include <simdjson.h>

#include "source/fingerprint/canonical_json.h"
#include "test/fingerprint/canonicalize.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

JsonRejection read(std::string_view text, NumberRule rule, std::string& canonical) {
  CanonicalJson json(rule);
  const JsonRejection rejection = json.read({&text, 1});
  if (rejection == JsonRejection::None) {
    canonical = written(json, json.whole());
    FUZZ_CHECK(canonical.size() == json.size(json.whole()));
  }
  return rejection;
}

simdjson::error_code bySimdjson(std::string_view text) {
  static auto* parser = new simdjson::dom::parser();
  simdjson::dom::element element;
  return parser->parse(simdjson::padded_string(text)).get(element);
}

// Integers of more than 64 bits are the one thing that we read and simdjson does not.
bool simdjsonMightTake(std::string_view text) {
  const simdjson::error_code error = bySimdjson(text);
  return error == simdjson::SUCCESS || error == simdjson::NUMBER_ERROR ||
         error == simdjson::BIGINT_ERROR;
}

void check(std::string_view text) {
  std::string exact;
  std::string rounded;
  const JsonRejection exact_rejection = read(text, NumberRule::Exact, exact);
  const JsonRejection rounded_rejection = read(text, NumberRule::Rounded, rounded);
  if (exact_rejection == JsonRejection::None) {
    FUZZ_CHECK(rounded_rejection == JsonRejection::None);
    FUZZ_CHECK(exact == rounded);
    std::string again;
    FUZZ_CHECK(read(exact, NumberRule::Exact, again) == JsonRejection::None);
    FUZZ_CHECK(again == exact);
  }
  if (rounded_rejection == JsonRejection::None) {
    FUZZ_CHECK(simdjsonMightTake(text));
    FUZZ_CHECK(simdjsonMightTake(rounded));
  }
  if (rounded_rejection == JsonRejection::Malformed ||
      rounded_rejection == JsonRejection::BadUtf8) {
    FUZZ_CHECK(bySimdjson(text) != simdjson::SUCCESS);
  }
  // Slices may be cut anywhere.
  const std::string_view slices[] = {text.substr(0, text.size() / 3), text.substr(text.size() / 3)};
  CanonicalJson sliced;
  FUZZ_CHECK(sliced.read(slices) == exact_rejection);
  if (exact_rejection == JsonRejection::None) {
    FUZZ_CHECK(written(sliced, sliced.whole()) == exact);
  }
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  idempotency::check(idempotency::fuzzText(data, size));
  return 0;
}
