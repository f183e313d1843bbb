// What the binding asks a module for: configs from Envoy's JSON, or the reason in the log.
#include <fmt/format.h>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "source/envoy/filter.h"
#include "source/envoy/process.h"
#include "source/filter/backend.h"
#include "source/filter/module_config.h"
#include "source/filter/route_policy.h"
#include "source/filter/stats.h"
#include "source/protocol/config.h"

namespace idempotency {
namespace {

constexpr std::string_view FilterName = "idempotency";

void refuse(std::string_view what, std::string_view why) {
  envoy::log(envoy::LogLevel::Error, fmt::format("idempotency: {} refused: {}", what, why));
}

bool knownName(std::string_view what, std::string_view name) {
  if (name == FilterName) {
    return true;
  }
  refuse(what, fmt::format("filter_name is \"{}\", this module has only \"{}\"", name, FilterName));
  return false;
}

// What the config's language has and this build does not do. To accept it would promise it: a
// response in plain text where encryption was asked for, say.
std::string_view notYet(const PolicyFields& policy) {
  return policy.detached.has_value() ? "policy.detached" : "";
}
std::string_view notYet(const FilterConfig& config) {
  if (config.encryption.has_value()) {
    return "encryption";
  }
  return config.reconcile.has_value() ? "reconcile" : notYet(config.policy);
}

bool isBuilt(std::string_view what, std::string_view missing) {
  if (missing.empty()) {
    return true;
  }
  refuse(what, fmt::format("{}: not supported yet; leave the field out", missing));
  return false;
}

}  // namespace

namespace envoy {

std::unique_ptr<FilterConfig> createFilterConfig(ConfigHandle handle, std::string_view name,
                                                 std::string_view json) {
  constexpr std::string_view What = "filter config";
  if (!knownName(What, name)) {
    return nullptr;
  }
  absl::StatusOr<idempotency::FilterConfig> config = loadFilterConfig(json);
  if (!config.ok()) {
    refuse(What, std::string(config.status().message()));
    return nullptr;
  }
  if (!isBuilt(What, notYet(*config))) {
    return nullptr;
  }
  const std::optional<Stats> stats = Stats::define(handle);
  if (!stats.has_value()) {
    refuse(What, "Envoy does not take the filter's statistics");
    return nullptr;
  }
  std::shared_ptr<Backend> backend;
  if (!isValidationMode()) {
    absl::StatusOr<std::shared_ptr<Backend>> obtained = Backend::obtain(backendSettings(*config));
    if (!obtained.ok()) {
      refuse(What, std::string(obtained.status().message()));
      return nullptr;
    }
    backend = *std::move(obtained);
  }
  return std::make_unique<ModuleConfig>(handle, *std::move(config), *stats, std::move(backend));
}

std::unique_ptr<RouteConfig> createRouteConfig(std::string_view name, std::string_view json) {
  constexpr std::string_view What = "route config";
  if (!knownName(What, name)) {
    return nullptr;
  }
  absl::StatusOr<idempotency::RouteConfig> config = loadRouteConfig(json);
  if (!config.ok()) {
    refuse(What, std::string(config.status().message()));
    return nullptr;
  }
  if (!isBuilt(What, notYet(config->policy))) {
    return nullptr;
  }
  return std::make_unique<RoutePolicy>(*std::move(config));
}

}  // namespace envoy
}  // namespace idempotency
