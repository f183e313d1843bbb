#pragma once

#include <cstdint>
#include <string_view>

#include "source/envoy/types.h"

// Functions of the whole Envoy process.
namespace idempotency::envoy {

// Any thread. Check it before you format an expensive message.
inline bool logEnabled(LogLevel level) {
  return raw::envoy_dynamic_module_callback_log_enabled(level);
}

// Any thread. Goes to Envoy's logger `dynamic_modules`.
inline void log(LogLevel level, std::string_view message) {
  raw::envoy_dynamic_module_callback_log(level, toBytes(message));
}

// Main thread. True under `envoy --mode validate`: then neither connect nor start threads.
inline bool isValidationMode() {
  return raw::envoy_dynamic_module_callback_is_validation_mode();
}

// Main thread. The number of workers.
inline uint32_t concurrency() {
  return raw::envoy_dynamic_module_callback_get_concurrency();
}

// Any thread. Whether the running Envoy is 1.40 or later.
inline bool isEnvoy140() {
  return raw::envoy_dynamic_module_callback_http_get_timing_info != nullptr;
}

}  // namespace idempotency::envoy
