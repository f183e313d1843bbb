// What the binding requires of a module: makes configs from Envoy's JSON, or logs why it cannot.
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bazel/version.h"
#include "source/config/config.h"
#include "source/config/operator_config.h"
#include "source/envoy/filter.h"
#include "source/envoy/process.h"
#include "source/filter/backend/backend.h"
#include "source/filter/operator/operator_backend.h"
#include "source/filter/operator/operator_filter.h"
#include "source/filter/stats/operator_stats.h"
#include "source/filter/stats/stats.h"
#include "source/filter/stream/module_config.h"
#include "source/filter/stream/route_policy.h"
#include "source/filter/stream/run_filter.h"

namespace idempotency::filter {
namespace {

// Once, when Envoy reads the first config that names the module. Main thread.
void logVersion() {
  static bool logged = false;
  if (!logged) {
    envoy::log(envoy::LogLevel::Info, fmt::format("idempotency: version {}", Version));
    logged = true;
  }
}

constexpr std::string_view FilterName = "idempotency";
// On the private listener.
constexpr std::string_view RunFilterName = "idempotency_run";
// On the operators' listener.
constexpr std::string_view OperatorFilterName = "idempotency_operator";

void refuse(std::string_view what, std::string_view why) {
  envoy::log(envoy::LogLevel::Error, fmt::format("idempotency: {} rejected: {}", what, why));
}

template <class Defined>
std::optional<Defined> defineStats(envoy::ConfigHandle handle, std::string_view what) {
  std::optional<Defined> stats = Defined::define(handle);
  if (!stats.has_value()) {
    refuse(what, "Envoy did not accept the filter's statistics");
  }
  return stats;
}

std::unique_ptr<envoy::FilterFactory> makeRunConfig(envoy::ConfigHandle handle,
                                                    std::string_view json) {
  constexpr std::string_view What = "config of idempotency_run";
  if (const absl::Status status = config::checkRunFilterConfig(json); !status.ok()) {
    refuse(What, std::string(status.message()));
    return nullptr;
  }
  const auto stats = defineStats<Stats>(handle, What);
  return stats.has_value() ? std::make_unique<RunConfig>(handle, *stats) : nullptr;
}

std::unique_ptr<envoy::FilterFactory> makeOperatorConfig(envoy::ConfigHandle handle,
                                                         std::string_view json) {
  constexpr std::string_view What = "config of idempotency_operator";
  absl::StatusOr<config::OperatorConfig> config = config::loadOperatorConfig(json);
  if (!config.ok()) {
    refuse(What, std::string(config.status().message()));
    return nullptr;
  }
  const auto stats = defineStats<OperatorStats>(handle, What);
  if (!stats.has_value()) {
    return nullptr;
  }
  std::shared_ptr<OperatorBackend> backend;
  if (!envoy::isValidationMode()) {
    auto obtained = OperatorBackend::obtain(config->settings);
    if (!obtained.ok()) {
      refuse(What, std::string(obtained.status().message()));
      return nullptr;
    }
    backend = *std::move(obtained);
  }
  return std::make_unique<OperatorFilterConfig>(handle, std::move(config->actor_sources), *stats,
                                                std::move(backend));
}

// Fields that the config has but this build does not support. Accepting them would be a false
// promise: for example, responses in plain text although encryption is configured.
std::string_view notYet(const config::FilterConfig& config) {
  return config.encryption.has_value() ? "encryption" : "";
}

bool isBuilt(std::string_view what, std::string_view missing) {
  if (missing.empty()) {
    return true;
  }
  refuse(what, fmt::format("{}: not supported yet; omit the field", missing));
  return false;
}

}  // namespace
}  // namespace idempotency::filter

// What the binding declares, and a module defines.
namespace idempotency::envoy {

std::unique_ptr<FilterFactory> createFilterFactory(ConfigHandle handle, std::string_view name,
                                                   std::string_view json) {
  constexpr std::string_view What = "filter config";
  filter::logVersion();
  if (name == filter::RunFilterName) {
    return filter::makeRunConfig(handle, json);
  }
  if (name == filter::OperatorFilterName) {
    return filter::makeOperatorConfig(handle, json);
  }
  if (name != filter::FilterName) {
    filter::refuse(
        What, fmt::format("filter_name is \"{}\"; expected \"{}\", \"{}\" or \"{}\"", name,
                          filter::FilterName, filter::RunFilterName, filter::OperatorFilterName));
    return nullptr;
  }
  absl::StatusOr<config::FilterConfig> config = config::loadFilterConfig(json);
  if (!config.ok()) {
    filter::refuse(What, std::string(config.status().message()));
    return nullptr;
  }
  if (!filter::isBuilt(What, filter::notYet(*config))) {
    return nullptr;
  }
  const auto stats = filter::defineStats<filter::Stats>(handle, What);
  if (!stats.has_value()) {
    return nullptr;
  }
  std::shared_ptr<filter::Backend> backend;
  auto status_tokens = filter::loadStatusTokens(*config, isValidationMode());
  if (!status_tokens.ok()) {
    filter::refuse(What, std::string(status_tokens.status().message()));
    return nullptr;
  }
  if (!isValidationMode()) {
    absl::StatusOr<std::shared_ptr<filter::Backend>> obtained =
        filter::Backend::obtain(filter::backendSettings(*config));
    if (!obtained.ok()) {
      filter::refuse(What, std::string(obtained.status().message()));
      return nullptr;
    }
    backend = *std::move(obtained);
  }
  return std::make_unique<filter::ModuleConfig>(handle, *std::move(config), *stats,
                                                std::move(backend), *std::move(status_tokens));
}

std::unique_ptr<RouteConfig> createRouteConfig(std::string_view name, std::string_view json) {
  constexpr std::string_view What = "route config";
  if (name != filter::FilterName) {
    filter::refuse(What,
                   fmt::format("filter_name is \"{}\"; expected \"{}\"", name, filter::FilterName));
    return nullptr;
  }
  absl::StatusOr<config::RouteConfig> config = config::loadRouteConfig(json);
  if (!config.ok()) {
    filter::refuse(What, std::string(config.status().message()));
    return nullptr;
  }
  return std::make_unique<filter::RoutePolicy>(*std::move(config));
}

}  // namespace idempotency::envoy
