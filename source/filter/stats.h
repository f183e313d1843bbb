#pragma once

#include <optional>
#include <string_view>

#include "source/envoy/config_handle.h"
#include "source/envoy/metrics.h"

// The filter's own statistics, listed once. docs/stats.md explains each; a test compares the two.
namespace idempotency {

// X(member, name). Plain counters.
#define IDEMPOTENCY_COUNTERS(X)         \
  X(covered, "covered")                 \
  X(key_missing, "key_missing")         \
  X(key_invalid, "key_invalid")         \
  X(tenant_missing, "tenant_missing")   \
  X(request_refused, "request_refused") \
  X(config_invalid, "config_invalid")

// X(member, name, label). Counters with one label.
#define IDEMPOTENCY_LABELLED_COUNTERS(X) X(unprotected, "unprotected", "route")

struct Stats {
#define IDEMPOTENCY_MEMBER(member, name) envoy::Counter member;
#define IDEMPOTENCY_LABELLED_MEMBER(member, name, label) envoy::LabelledCounter<1> member;
  IDEMPOTENCY_COUNTERS(IDEMPOTENCY_MEMBER)
  IDEMPOTENCY_LABELLED_COUNTERS(IDEMPOTENCY_LABELLED_MEMBER)
#undef IDEMPOTENCY_MEMBER
#undef IDEMPOTENCY_LABELLED_MEMBER

  // Only while the config is being made. None: Envoy refused a definition.
  static std::optional<Stats> define(envoy::ConfigHandle handle);
};

}  // namespace idempotency
