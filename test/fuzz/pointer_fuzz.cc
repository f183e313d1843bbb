// The input is JSON Pointers, one per line, then an empty line, then a body. The values that they
// select are compared with what simdjson finds; what is left when they are excluded must be
// canonical JSON. Since an empty line ends the list, the pointer to the whole document is written
// as a line with `.`.

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/canonical_json.h"
#include "source/fingerprint/json_pointer_set.h"
#include "test/fingerprint/canonicalize.h"
#include "test/fingerprint/json_oracle.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

// Tokens written again give the text.
void checkPointer(const fingerprint::JsonPointer& pointer) {
  std::string text;
  for (const std::string& token : pointer.tokens()) {
    text += '/';
    for (const char c : token) {
      text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
  }
  FUZZ_CHECK(text == pointer.text());
}

// Cuts the pointers off the input.
fingerprint::JsonPointerSet takePointers(std::string_view& input) {
  std::vector<fingerprint::JsonPointer> pointers;
  while (!input.empty()) {
    const size_t end = input.find('\n');
    const std::string_view line = input.substr(0, end);
    input = end == std::string_view::npos ? std::string_view() : input.substr(end + 1);
    if (line.empty()) {
      break;
    }
    const absl::StatusOr<fingerprint::JsonPointer> pointer =
        fingerprint::JsonPointer::parse(line == "." ? "" : line);
    if (pointer.ok()) {
      checkPointer(*pointer);
      pointers.push_back(*pointer);
    }
  }
  return fingerprint::JsonPointerSet(pointers);
}

void checkSelected(std::string_view body, const fingerprint::JsonPointerSet& pointers,
                   const fingerprint::CanonicalJson& plain) {
  fingerprint::CanonicalJson json;
  FUZZ_CHECK(json.readSelecting({&body, 1}, pointers) == fingerprint::JsonRejection::None);
  FUZZ_CHECK(fingerprint::written(json, json.whole()) ==
             fingerprint::written(plain, plain.whole()));
  const bool oracle_accepts = fingerprint::askOracle(body).accepted;
  size_t place = 0;
  for (const fingerprint::JsonPointer& pointer : pointers) {
    const std::optional<fingerprint::JsonSpan> value = json.selected(place++);
    std::optional<std::string> found;
    if (value.has_value()) {
      found = fingerprint::written(json, *value);
      FUZZ_CHECK(found->size() == json.size(*value));
    }
    if (oracle_accepts) {
      FUZZ_CHECK(found == fingerprint::askOracleAt(body, pointer.text()));
    }
  }
}

void checkExcluded(std::string_view body, const fingerprint::JsonPointerSet& pointers) {
  fingerprint::CanonicalJson json;
  FUZZ_CHECK(json.readExcluding({&body, 1}, pointers) == fingerprint::JsonRejection::None);
  const std::string left = fingerprint::written(json, json.whole());
  FUZZ_CHECK(left.size() == json.size(json.whole()));
  if (pointers.root()->pointer() != fingerprint::JsonPointerSet::Node::NoPointer) {
    FUZZ_CHECK(left.empty());
    return;
  }
  FUZZ_CHECK(fingerprint::canonicalize(left) == left);
  // Members that were left out are not there any more; elements that follow others move up.
  for (const fingerprint::JsonPointer& pointer : pointers) {
    const bool may_move = pointer.text().find_first_of("0123456789") != std::string::npos;
    FUZZ_CHECK(may_move || !fingerprint::askOracle(left).accepted ||
               !fingerprint::askOracleAt(left, pointer.text()).has_value());
  }
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  std::string_view body = fuzzText(data, size);
  const fingerprint::JsonPointerSet pointers = takePointers(body);
  fingerprint::CanonicalJson plain;
  const fingerprint::JsonRejection rejection = plain.read({&body, 1});
  if (rejection == fingerprint::JsonRejection::None) {
    checkSelected(body, pointers, plain);
    checkExcluded(body, pointers);
    return 0;
  }
  // What is JSON does not depend on the pointers.
  fingerprint::CanonicalJson selecting;
  FUZZ_CHECK(selecting.readSelecting({&body, 1}, pointers) == rejection);
  fingerprint::CanonicalJson excluding;
  FUZZ_CHECK(excluding.readExcluding({&body, 1}, pointers) == rejection);
  return 0;
}
