#pragma once

#include <string_view>

#include "source/envoy/filter.h"
#include "source/filter/module_config.h"
#include "source/protocol/decide.h"
#include "source/protocol/policy.h"

namespace idempotency {

// One request. Turns what Envoy shows into values, asks `protocol`, does what it says.
//
// As far as it goes today: it refuses requests whose key, tenant or policy is wrong, and hands
// every other request on. The claim in a store comes next; until then no request is kept from
// running twice.
class StreamFilter : public envoy::Filter {
public:
  StreamFilter(envoy::Stream stream, const ModuleConfig& config)
      : Filter(stream), config_(config) {}

  // envoy::Filter
  envoy::HeadersAction onRequestHeaders(bool end) override;

private:
  RequestFacts requestFacts(const Policy& policy) const;
  envoy::HeadersAction pass(std::string_view method, PassReason reason);
  envoy::HeadersAction answer(const Policy& policy, const Answer& answer);
  void count(Problem problem) const;

  const ModuleConfig& config_;  // Envoy keeps it alive longer than its streams.
};

}  // namespace idempotency
