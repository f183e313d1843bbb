// As libidempotency.so in Envoy: brings its own C++ runtime into a process that has another.
#include "test/portable/runtime_checks.h"

extern "C" [[gnu::visibility("default")]] const char* envoy_dynamic_module_on_program_init() {
  return idempotency::portable_test::firstFault();
}
