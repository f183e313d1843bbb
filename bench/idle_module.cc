// A module whose filter does nothing: what Envoy itself takes for having any. For bench/run.
#include <memory>

#include "source/envoy/filter.h"

namespace idempotency::envoy {
namespace {

class IdleConfig : public FilterFactory {
public:
  using FilterFactory::FilterFactory;
  std::unique_ptr<Filter> createFilter(Stream stream) override {
    return std::make_unique<Filter>(stream);
  }
};

}  // namespace

std::unique_ptr<FilterFactory> createFilterFactory(ConfigHandle handle, std::string_view,
                                                   std::string_view) {
  return std::make_unique<IdleConfig>(handle);
}

std::unique_ptr<RouteConfig> createRouteConfig(std::string_view, std::string_view) {
  return std::make_unique<RouteConfig>();
}

}  // namespace idempotency::envoy
