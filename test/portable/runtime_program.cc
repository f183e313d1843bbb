// Runs the checks in the program itself, then those in the library that the argument names. Exit
// code 0: nothing is wrong.
#include <cstdio>
#include <dlfcn.h>

#include "test/portable/runtime_checks.h"

namespace {

bool report(const char* where, const char* fault) {
  std::printf("%s: %s\n", where, fault == nullptr ? "fine" : fault);
  return fault == nullptr;
}

bool moduleIsFine(const char* path) {
  void* const module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const check =
      module == nullptr ? nullptr : dlsym(module, "envoy_dynamic_module_on_program_init");
  if (check == nullptr) {
    return report("module", dlerror());
  }
  return report("module", reinterpret_cast<const char* (*)()>(check)());
}

}  // namespace

int main(int count, char** words) {
  const bool program = report("program", idempotency::portable_test::firstFault());
  return program && count == 2 && moduleIsFine(words[1]) ? 0 : 1;
}
