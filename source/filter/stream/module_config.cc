#include "source/filter/stream/module_config.h"

#include <atomic>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <utility>

#include "source/filter/stream/stream_filter.h"

namespace idempotency::filter {
namespace {

uint64_t nextId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

absl::StatusOr<std::optional<message::StatusTokens>> loadStatusTokens(
    const config::FilterConfig& config, bool validates_only) {
  if (!config.status_resource.has_value() || validates_only) {
    return std::nullopt;
  }
  std::ifstream file(config.status_resource->secret_file, std::ios::binary);
  std::string secret((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    return absl::UnavailableError("status_resource.secret_file: cannot read the file");
  }
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) {
    secret.pop_back();
  }
  std::optional<message::StatusTokens> tokens = message::StatusTokens::create(secret);
  if (!tokens.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("status_resource.secret_file: the secret has {} bytes; expected at least {}",
                    secret.size(), message::StatusTokens::MinSecretBytes));
  }
  return tokens;
}

BackendSettings backendSettings(const config::FilterConfig& config) {
  BackendSettings settings;
  settings.store = config.store;
  settings.limits = config.limits;
  settings.replay_cache = config.replay_cache;
  settings.maintenance = config.maintenance;
  settings.private_listener = config.private_listener;
  settings.reconcile = config.reconcile;
  return settings;
}

ModuleConfig::ModuleConfig(envoy::ConfigHandle handle, config::FilterConfig config, Stats stats,
                           std::shared_ptr<Backend> backend,
                           std::optional<message::StatusTokens> status_tokens)
    : envoy::FilterFactory(handle),
      id_(nextId()),
      config_(std::move(config)),
      own_policy_(makePolicy(config_, nullptr)),
      stats_(stats),
      backend_(std::move(backend)),
      status_tokens_(status_tokens),
      asker_(std::make_shared<ConfigAsker>(handle)) {
  if (backend_ != nullptr) {
    backend_->stats().attach(handle, stats_, mailbox());
    SharedAsker::ofProcess().attach(asker_, mailbox());
  }
}

ModuleConfig::~ModuleConfig() {
  if (backend_ != nullptr) {
    SharedAsker::ofProcess().detach(*asker_);
    backend_->stats().detach(handle());
  }
}

std::unique_ptr<envoy::Filter> ModuleConfig::createFilter(envoy::Stream stream) {
  return std::make_unique<StreamFilter>(stream, *this);
}

std::string_view ModuleConfig::statusTokenIn(std::string_view path) const {
  if (!status_tokens_.has_value() || !path.starts_with(config_.status_resource->prefix)) {
    return {};
  }
  path.remove_prefix(config_.status_resource->prefix.size());
  return path.substr(0, path.find('?'));
}

std::string ModuleConfig::statusPath(const protocol::Identity& identity) const {
  const std::string token =
      status_tokens_.has_value() ? status_tokens_->seal(identity) : std::string();
  return token.empty() ? token : config_.status_resource->prefix + token;
}

const SharedPolicy& ModuleConfig::policyFor(const RoutePolicy* route) const {
  return route == nullptr ? own_policy_ : route->resolve(id_, config_);
}

}  // namespace idempotency::filter
