// The input is the value of Content-Type.

#include <string>
#include <string_view>

#include "source/fingerprint/media_type.h"
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const std::string text(fuzzText(data, size));
  std::string scratch;
  const std::string normal(fingerprint::normalMediaType(text, scratch));
  FUZZ_CHECK(normal.size() <= text.size());
  FUZZ_CHECK(fingerprint::normalMediaType(normal, scratch) == normal);
  FUZZ_CHECK(fingerprint::isJsonMediaType(normal) == fingerprint::isJsonMediaType(text));
  FUZZ_CHECK(fingerprint::normalMediaType(" " + text + "\t", scratch) == normal);
  return 0;
}
