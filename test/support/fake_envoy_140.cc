// What Envoy 1.40 has and 1.39 lacks. A program that does not link this plays Envoy 1.39.
#include <string>
#include <vector>

#include "test/support/fake_envoy.h"

namespace idempotency::envoy::raw {
namespace {

// Secret names by id, from 1. Ids are never given back.
std::vector<std::string>& subscriptions() {
  static auto* names = new std::vector<std::string>();
  return *names;
}

bool secret(size_t id, Bytes* value) {
  if (id == 0 || id > subscriptions().size()) {
    return false;
  }
  const auto found = fake::process().secrets.find(subscriptions()[id - 1]);
  if (found == fake::process().secrets.end()) {
    return false;
  }
  *value = {found->second.data(), found->second.size()};
  return true;
}

}  // namespace

extern "C" {

void envoy_dynamic_module_callback_http_get_timing_info() {}

size_t envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe(ConfigPtr,
                                                                                 Bytes name,
                                                                                 Bytes) {
  if (name.size == 0) {
    return 0;
  }
  subscriptions().emplace_back(name.data, name.size);
  return subscriptions().size();
}

bool envoy_dynamic_module_callback_http_filter_get_generic_secret(StreamPtr, size_t id,
                                                                  Bytes* value) {
  return secret(id, value);
}

bool envoy_dynamic_module_callback_http_filter_config_get_generic_secret(ConfigPtr, size_t id,
                                                                         Bytes* value) {
  return secret(id, value);
}

}  // extern "C"

}  // namespace idempotency::envoy::raw
