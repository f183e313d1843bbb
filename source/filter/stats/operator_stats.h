#pragma once

#include <cstddef>
#include <optional>

#include "source/envoy/config_handle.h"
#include "source/envoy/metrics.h"

// The operator filter's statistics, listed once. docs/stats.md explains each; a test compares the
// two.
namespace idempotency::filter {

// X(member, name, label...). Counters. Each label has few values: words of the code and of the API,
// never text from a request.
#define IDEMPOTENCY_OPERATOR_COUNTERS(X)                 \
  X(requests, "operator.requests", "endpoint", "status") \
  X(changes, "operator.changes", "action", "outcome")    \
  X(webhook_events, "operator.webhook_events", "result")

template <class... Label>
consteval size_t labelCount(const Label&... /*labels*/) {
  return sizeof...(Label);
}

struct OperatorStats {
#define IDEMPOTENCY_OPERATOR_MEMBER(member, name, ...) \
  envoy::LabelledCounter<labelCount(__VA_ARGS__)> member;
  IDEMPOTENCY_OPERATOR_COUNTERS(IDEMPOTENCY_OPERATOR_MEMBER)
#undef IDEMPOTENCY_OPERATOR_MEMBER

  // Only while the config is being made. None: Envoy refused a definition.
  static std::optional<OperatorStats> define(envoy::ConfigHandle handle);
};

}  // namespace idempotency::filter
