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

ModuleConfig::ModuleConfig(envoy::ConfigHandle handle, idempotency::FilterConfig config,
                           Stats stats)
    : envoy::FilterConfig(handle),
      id_(nextId()),
      config_(std::move(config)),
      own_policy_(makePolicy(config_, nullptr)),
      stats_(stats) {}

std::unique_ptr<envoy::Filter> ModuleConfig::createFilter(envoy::Stream stream) {
  return std::make_unique<StreamFilter>(stream, *this);
}

const SharedPolicy& ModuleConfig::policyFor(const RoutePolicy* route) const {
  return route == nullptr ? own_policy_ : route->resolve(id_, config_);
}

}  // namespace idempotency
