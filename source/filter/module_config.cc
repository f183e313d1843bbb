#include "source/filter/module_config.h"

#include <atomic>
#include <utility>

#include "source/filter/stream_filter.h"

namespace idempotency {
namespace {

uint64_t nextId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

BackendSettings backendSettings(const FilterConfig& config) {
  BackendSettings settings;
  settings.store = config.store;
  settings.limits = config.limits;
  settings.replay_cache = config.replay_cache;
  settings.maintenance = config.maintenance;
  if (config.reconcile.has_value()) {
    settings.reconcile_after = config.reconcile->first_delay;
  }
  return settings;
}

ModuleConfig::ModuleConfig(envoy::ConfigHandle handle, idempotency::FilterConfig config,
                           Stats stats, std::shared_ptr<Backend> backend)
    : envoy::FilterConfig(handle),
      id_(nextId()),
      config_(std::move(config)),
      own_policy_(makePolicy(config_, nullptr)),
      stats_(stats),
      backend_(std::move(backend)) {
  if (backend_ != nullptr) {
    backend_->stats().attach(handle, stats_, mailbox());
  }
}

ModuleConfig::~ModuleConfig() {
  if (backend_ != nullptr) {
    backend_->stats().detach(handle());
  }
}

std::unique_ptr<envoy::Filter> ModuleConfig::createFilter(envoy::Stream stream) {
  return std::make_unique<StreamFilter>(stream, *this);
}

const SharedPolicy& ModuleConfig::policyFor(const RoutePolicy* route) const {
  return route == nullptr ? own_policy_ : route->resolve(id_, config_);
}

}  // namespace idempotency
