// The input is a JSON Pointer, a newline, and a document. A pointer is what its tokens say, and
// selecting and excluding by it never fail.

#include <string>
#include <string_view>

#include "source/fingerprint/canonical_json.h"
#include "source/fingerprint/json_pointer.h"
#include "source/fingerprint/json_pointer_set.h"
#include "test/fingerprint/canonicalize.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

std::string encoded(const JsonPointer& pointer) {
  std::string text;
  for (const std::string& token : pointer.tokens()) {
    text += '/';
    for (const char c : token) {
      text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
  }
  return text;
}

void check(std::string_view input) {
  const size_t line = input.find('\n');
  const auto pointer = JsonPointer::parse(input.substr(0, line));
  if (!pointer.ok()) {
    return;
  }
  FUZZ_CHECK(encoded(*pointer) == pointer->text());
  FUZZ_CHECK(pointer->tokens().size() <= MaxJsonDepth);
  if (line == std::string_view::npos) {
    return;
  }
  const std::string_view document = input.substr(line + 1);
  const JsonPointerSet set = {*pointer};
  CanonicalJson whole;
  const JsonRejection rejection = whole.read({&document, 1});
  CanonicalJson selected;
  const JsonRejection selected_rejection = selected.readSelecting({&document, 1}, set);
  CanonicalJson excluded;
  const JsonRejection excluded_rejection = excluded.readExcluding({&document, 1}, set);
  if (rejection != JsonRejection::None) {
    return;
  }
  FUZZ_CHECK(selected_rejection == JsonRejection::None);
  FUZZ_CHECK(excluded_rejection == JsonRejection::None);
  const auto value = selected.selected(0);
  if (!value.has_value()) {
    // What is not there cannot be left out.
    FUZZ_CHECK(written(excluded, excluded.whole()) == written(whole, whole.whole()));
    return;
  }
  const std::string text = written(selected, *value);
  FUZZ_CHECK(canonicalize(text) == text);
  if (pointer->tokens().empty()) {
    FUZZ_CHECK(text == written(whole, whole.whole()));
  }
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  idempotency::check(idempotency::fuzzText(data, size));
  return 0;
}
