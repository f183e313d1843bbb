#include <memory>
#include <string_view>

#include "source/envoy/filter.h"

namespace idempotency {
namespace {

class PassThroughConfig : public envoy::FilterConfig {
public:
  using envoy::FilterConfig::FilterConfig;
  std::unique_ptr<envoy::Filter> createFilter(envoy::Stream stream) override {
    return std::make_unique<envoy::Filter>(stream);
  }
};

}  // namespace

namespace envoy {

std::unique_ptr<FilterConfig> createFilterConfig(ConfigHandle handle, std::string_view,
                                                 std::string_view) {
  return std::make_unique<PassThroughConfig>(handle);
}

std::unique_ptr<RouteConfig> createRouteConfig(std::string_view, std::string_view) {
  return std::make_unique<RouteConfig>();
}

}  // namespace envoy
}  // namespace idempotency
