// A fuzz target with a flaw, to show that the replay finds flaws and reports the input.

#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FUZZ_CHECK(idempotency::fuzzText(data, size).find("!!") == std::string_view::npos);
  return 0;
}
