#pragma once

#include <cstdint>
#include <memory>

#include "source/envoy/filter.h"
#include "source/filter/backend.h"
#include "source/filter/route_policy.h"
#include "source/filter/stats.h"
#include "source/protocol/config.h"

namespace idempotency {

// One filter config of one Envoy: what the config says, the statistics, and a share in the backend.
// Immutable after it is made, so workers share it without locks.
class ModuleConfig : public envoy::FilterConfig {
public:
  // `backend` is null under `envoy --mode validate`, where no request ever comes.
  ModuleConfig(envoy::ConfigHandle handle, idempotency::FilterConfig config, Stats stats,
               std::shared_ptr<Backend> backend);
  ~ModuleConfig() override;

  // envoy::FilterConfig
  std::unique_ptr<envoy::Filter> createFilter(envoy::Stream stream) override;

  const idempotency::FilterConfig& config() const { return config_; }
  const Stats& stats() const { return stats_; }
  Backend& backend() const { return *backend_; }

  // The policy for a route; null: for a route without a config of its own. Any worker. The
  // reference lives as long as this config and the route.
  const SharedPolicy& policyFor(const RoutePolicy* route) const;

private:
  const uint64_t id_;
  const idempotency::FilterConfig config_;
  const SharedPolicy own_policy_;
  const Stats stats_;
  const std::shared_ptr<Backend> backend_;
};

// What of a config the backend is made of.
BackendSettings backendSettings(const FilterConfig& config);

}  // namespace idempotency
