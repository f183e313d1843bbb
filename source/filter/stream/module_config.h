#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/config/config.h"
#include "source/envoy/filter.h"
#include "source/filter/backend/backend.h"
#include "source/filter/backend/shared_asker.h"
#include "source/filter/stats/stats.h"
#include "source/filter/stream/route_policy.h"
#include "source/message/status_token.h"
#include "source/protocol/record.h"

namespace idempotency::filter {

// One filter config of one Envoy: its settings, the statistics, and a reference to the backend.
// Immutable after its creation but for the asker, which is the main thread's; so workers share it
// without locks.
class ModuleConfig : public envoy::FilterFactory {
public:
  // `backend` is null under `envoy --mode validate`, where there are no requests.
  // `status_tokens` is set if the config has a status resource and there are requests.
  ModuleConfig(envoy::ConfigHandle handle, config::FilterConfig config, Stats stats,
               std::shared_ptr<Backend> backend,
               std::optional<message::StatusTokens> status_tokens = std::nullopt);
  ~ModuleConfig() override;

  // envoy::FilterFactory
  std::unique_ptr<envoy::Filter> createFilter(envoy::Stream stream) override;
  // Of the reconciler's questions.
  void onSideHeaders(uint64_t id, std::span<const envoy::Field> headers, bool end) override {
    asker_->onSideHeaders(id, headers, end);
  }
  void onSideData(uint64_t id, std::span<const envoy::raw::Bytes> data, bool end) override {
    asker_->onSideData(id, data, end);
  }
  void onSideComplete(uint64_t id) override { asker_->onSideComplete(id); }
  void onSideReset(uint64_t id, envoy::SideStreamReset reason) override {
    asker_->onSideReset(id, reason);
  }

  const config::FilterConfig& config() const { return config_; }
  // What one tenant may use; null: everything.
  const protocol::TenantShare* tenantShare() const {
    return config_.tenant_share.has_value() ? &*config_.tenant_share : nullptr;
  }
  const Stats& stats() const { return stats_; }
  Backend& backend() const { return *backend_; }
  const std::shared_ptr<Backend>& sharedBackend() const { return backend_; }

  // The run that a path names, if it is below the status resource's prefix: empty if the filter has
  // none, or for another path.
  std::string_view statusTokenIn(std::string_view path) const;
  // Only with a status resource.
  const message::StatusTokens& statusTokens() const { return *status_tokens_; }
  std::string statusPath(const protocol::Identity& identity) const;

  // The policy for a route; null for a route without its own config. Any worker. The reference is
  // valid as long as this config and the route exist.
  const SharedPolicy& policyFor(const RoutePolicy* route) const;

private:
  const uint64_t id_;
  const config::FilterConfig config_;
  const SharedPolicy own_policy_;
  const Stats stats_;
  const std::shared_ptr<Backend> backend_;
  const std::optional<message::StatusTokens> status_tokens_;
  const std::shared_ptr<ConfigAsker> asker_;
};

// What the config's status resource needs: reads its secret, unless Envoy only validates. Main
// thread.
absl::StatusOr<std::optional<message::StatusTokens>> loadStatusTokens(
    const config::FilterConfig& config, bool validates_only);

// The part of a config that the backend depends on.
BackendSettings backendSettings(const config::FilterConfig& config);

}  // namespace idempotency::filter
