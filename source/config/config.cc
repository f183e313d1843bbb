#include "source/config/config.h"

#include <fmt/format.h>
#include <set>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/config_check.h"
#include "source/config/duration_text.h"
#include "source/config/json_message.h"
#include "source/config/policy_reader.h"
#include "source/config/reconcile_reader.h"
#include "source/config/store_config.h"

namespace idempotency::config {
namespace {

using namespace std::chrono_literals;

constexpr size_t MaxSources = 8;
constexpr size_t MaxEncryptionKeys = 16;
constexpr size_t LongestPrefix = 256;
constexpr size_t LongestSocketPath = 107;  // Of sockaddr_un, with its terminating zero.

std::vector<protocol::NameSource> readTenant(const v1::Tenant& message, FieldErrors& errors) {
  if (message.sources_size() == 0) {
    errors.add("tenant.sources",
               "required; list 1 to 8 sources, or [ { fixed: \"\" } ] for an API with a single "
               "tenant");
    return {};
  }
  checkRange("tenant.sources (entries)", static_cast<uint64_t>(message.sources_size()), 1,
             MaxSources, errors);
  std::vector<protocol::NameSource> sources;
  for (int i = 0; i < message.sources_size(); ++i) {
    const std::string path = indexPath("tenant.sources", static_cast<size_t>(i));
    protocol::NameSource source = checkSource(path, message.sources(i), errors);
    for (const protocol::NameSource& earlier : sources) {
      if (earlier == source) {
        errors.add(path, "duplicate source");
      }
    }
    if (!sources.empty() && std::holds_alternative<protocol::FixedSource>(sources.back())) {
      errors.add(path, "never used, because it follows a fixed source; put the fixed source last");
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

protocol::ReplayCacheSettings readReplayCache(const v1::ReplayCache& message, FieldErrors& errors) {
  protocol::ReplayCacheSettings settings;
  if (message.has_max_bytes()) {
    settings.max_bytes =
        checkRange("replay_cache.max_bytes", message.max_bytes(), 0, uint64_t{16} << 30, errors);
  }
  if (message.has_max_age()) {
    settings.max_age = checkDuration("replay_cache.max_age", message.max_age(), 1s, 24h, errors);
  }
  return settings;
}

protocol::PrivateListenerSettings readPrivateListener(const v1::PrivateListener& message,
                                                      FieldErrors& errors) {
  protocol::PrivateListenerSettings settings;
  settings.path = message.path();
  if (!settings.path.starts_with('/') || settings.path.size() > LongestSocketPath ||
      settings.path.find('\0') != std::string::npos) {
    errors.add("private_listener.path",
               fmt::format("got {}; expected an absolute path of at most {} bytes",
                           quoteForError(settings.path), LongestSocketPath));
  }
  if (message.has_accept_timeout()) {
    settings.accept_timeout = checkDuration("private_listener.accept_timeout",
                                            message.accept_timeout(), 10ms, 60s, errors);
  }
  if (message.has_max_runs()) {
    settings.max_runs = static_cast<uint32_t>(
        checkRange("private_listener.max_runs", message.max_runs(), 1, 1'000'000, errors));
  }
  return settings;
}

protocol::StatusResourceSettings readStatusResource(const v1::StatusResource& message,
                                                    FieldErrors& errors) {
  constexpr std::string_view Path = "status_resource.prefix";
  protocol::StatusResourceSettings settings;
  settings.prefix = checkText(Path, message.prefix(), 1, LongestPrefix, errors);
  const bool is_path = settings.prefix.starts_with('/') && settings.prefix.ends_with('/') &&
                       settings.prefix.find_first_of("?# ") == std::string::npos;
  if (!settings.prefix.empty() && !is_path) {
    errors.add(Path, quoteForError(settings.prefix),
               "a path that begins and ends with a slash, such as /idempotency/runs/");
  }
  settings.secret_file = checkFile("status_resource.secret_file", message.secret_file(), errors);
  return settings;
}

// Whether requests can have different tenants. A fixed source is the last one.
bool hasManyTenants(const std::vector<protocol::NameSource>& sources) {
  return !sources.empty() && !std::holds_alternative<protocol::FixedSource>(sources.front());
}

// `whole`, or half of it (rounded up) if there is more than one tenant.
uint32_t defaultShare(uint32_t whole, bool many_tenants) {
  return many_tenants ? (whole + 1) / 2 : whole;
}

// None if one tenant may use everything: then nothing has to be counted.
std::optional<protocol::TenantShare> readTenantShare(const protocol::LimitSettings& limits,
                                                     bool many_tenants, FieldErrors& errors) {
  protocol::TenantShare share;
  share.in_flight = defaultShare(limits.in_flight, many_tenants);
  if (limits.tenant_in_flight.has_value()) {
    share.in_flight = static_cast<uint32_t>(checkRange(
        "limits.tenant_in_flight", *limits.tenant_in_flight, 1, limits.in_flight, errors));
  }
  share.waiters = defaultShare(share.in_flight, many_tenants);
  if (limits.tenant_waiters.has_value()) {
    share.waiters = static_cast<uint32_t>(
        checkRange("limits.tenant_waiters", *limits.tenant_waiters, 1, share.in_flight, errors));
  }
  const bool all_requests = share.in_flight == limits.in_flight;
  share.request_bytes = all_requests ? limits.requestBytes() : limits.requestBytes() / 2;
  if (all_requests && share.waiters == share.in_flight) {
    return std::nullopt;
  }
  return share;
}

protocol::LimitSettings readLimits(const v1::Limits& message, FieldErrors& errors) {
  protocol::LimitSettings settings;
  if (message.has_in_flight()) {
    settings.in_flight = static_cast<uint32_t>(
        checkRange("limits.in_flight", message.in_flight(), 1, 1'000'000, errors));
  }
  if (message.has_queue_bytes()) {
    settings.queue_bytes =
        checkRange("limits.queue_bytes", message.queue_bytes(), 1 << 20, uint64_t{4} << 30, errors);
  }
  if (message.has_tenant_key_rate()) {
    settings.tenant_key_rate = static_cast<uint32_t>(
        checkRange("limits.tenant_key_rate", message.tenant_key_rate(), 1, 1'000'000, errors));
  }
  if (message.has_tenant_live_keys()) {
    settings.tenant_live_keys =
        checkRange("limits.tenant_live_keys", message.tenant_live_keys(), 1, 1'000'000'000, errors);
  }
  if (message.has_held_bytes()) {
    settings.held_bytes =
        checkRange("limits.held_bytes", message.held_bytes(), 1 << 20, uint64_t{64} << 30, errors);
  }
  if (message.has_tenant_in_flight()) {
    settings.tenant_in_flight = message.tenant_in_flight();
  }
  if (message.has_tenant_waiters()) {
    settings.tenant_waiters = message.tenant_waiters();
  }
  return settings;
}

// Otherwise the largest request would always be refused, with advice to retry later.
void checkLargestRequest(const FilterConfig& filter, uint64_t max_request_bytes,
                         FieldErrors& errors) {
  const uint64_t most = filter.tenant_share.has_value() ? filter.tenant_share->request_bytes
                                                        : filter.limits.requestBytes();
  if (max_request_bytes > most) {
    errors.add(
        "policy.max_request_bytes", fmt::format("{}", max_request_bytes),
        fmt::format("at most {}, the limit for the requests of one tenant (see limits.held_bytes)",
                    most));
  }
}

// Otherwise a claim could be granted after its lease expired, and the request would be refused.
void checkLease(const protocol::StoreSettings& store, std::chrono::milliseconds lease,
                FieldErrors& errors) {
  if (const auto timeout = protocol::timeoutOf(store); lease < timeout) {
    errors.add("policy.lease", formatDuration(lease),
               fmt::format("at least the store's timeout ({})", formatDuration(timeout)));
  }
}

protocol::MaintenanceSettings readMaintenance(const v1::Maintenance& message, FieldErrors& errors) {
  protocol::MaintenanceSettings settings;
  if (message.has_enabled()) {
    settings.enabled = message.enabled();
  }
  if (message.has_sweep_interval()) {
    settings.sweep_interval =
        checkDuration("maintenance.sweep_interval", message.sweep_interval(), 1s, 1h, errors);
  }
  if (message.has_reap_interval()) {
    settings.reap_interval =
        checkDuration("maintenance.reap_interval", message.reap_interval(), 1s, 24h, errors);
  }
  if (message.has_soft_expire()) {
    settings.soft_expire = message.soft_expire();
  }
  return settings;
}

protocol::EncryptionSettings readEncryption(const v1::Encryption& message, FieldErrors& errors) {
  if (message.keys_size() == 0) {
    errors.add("encryption.keys", "required; list 1 to 16 keys");
    return {};
  }
  checkRange("encryption.keys (entries)", static_cast<uint64_t>(message.keys_size()), 1,
             MaxEncryptionKeys, errors);
  protocol::EncryptionSettings settings;
  std::set<std::string> ids;
  for (int i = 0; i < message.keys_size(); ++i) {
    const std::string path = indexPath("encryption.keys", static_cast<size_t>(i));
    const v1::EncryptionKey& key = message.keys(i);
    checkKeyId(joinPath(path, "id"), key.id(), errors);
    if (!ids.insert(key.id()).second) {
      errors.add(joinPath(path, "id"), fmt::format("duplicate id {}", quoteForError(key.id())));
    }
    settings.keys.push_back({key.id(), checkFile(joinPath(path, "file"), key.file(), errors)});
  }
  return settings;
}

// Checks of a filter's policy, or of a route's over the filter's, against the rest of the config.
void checkAgainstFilter(const FilterConfig& filter, const protocol::Policy& policy,
                        FieldErrors& errors) {
  checkLargestRequest(filter, policy.max_request_bytes, errors);
  checkLease(filter.store, policy.lease, errors);
  if (policy.detached.has_value() && !filter.private_listener.has_value()) {
    errors.add("policy.detached", "requires private_listener in the filter's config");
  }
  if (policy.detached.has_value() &&
      policy.detached->respond_async != protocol::RespondAsync::Never &&
      !filter.status_resource.has_value()) {
    errors.add("policy.detached.respond_async", "requires status_resource in the filter's config");
  }
  if (policy.own_transaction && std::holds_alternative<protocol::SqliteSettings>(filter.store)) {
    errors.add("policy.own_transaction",
               "requires store.postgres: a service cannot commit to a SQLite store in its own "
               "transaction");
  }
  // A URL of the status resource does not show whose request it was, within the tenant.
  if (policy.detached.has_value() &&
      policy.detached->respond_async != protocol::RespondAsync::Never &&
      policy.principal.has_value()) {
    errors.add("policy.detached.respond_async", "cannot be combined with fingerprint.principal");
  }
}

// A config that was not loaded from JSON has no message.
const v1::Policy& orNothing(const std::shared_ptr<const v1::Policy>& policy) {
  return policy == nullptr ? v1::Policy::default_instance() : *policy;
}

// Names the operation, so that an operator finds the route: Envoy does not tell a config where it
// is used. An operation that is wrong itself is in the errors already.
absl::Status withOperation(const v1::Policy& policy, const absl::Status& status) {
  FieldErrors wrong;
  checkName("policy.operation", policy.operation(), wrong);
  if (!wrong.empty()) {
    return status;
  }
  return absl::InvalidArgumentError(fmt::format(
      "operation {}: {}", quoteForError(policy.operation()), std::string(status.message())));
}

}  // namespace

absl::StatusOr<FilterConfig> loadFilterConfig(std::string_view json) {
  v1::FilterConfig message;
  FieldErrors errors;
  readJson(json, message, errors);
  if (!errors.empty()) {
    return errors.status();
  }
  FilterConfig config;
  config.store = readStore(message.store(), errors);
  config.tenant_sources = readTenant(message.tenant(), errors);
  config.policy = std::make_shared<const v1::Policy>(message.policy());
  const protocol::Policy policy = readPolicy(*config.policy, errors);
  config.replay_cache = readReplayCache(message.replay_cache(), errors);
  config.limits = readLimits(message.limits(), errors);
  if (message.has_private_listener()) {
    config.private_listener = readPrivateListener(message.private_listener(), errors);
  }
  if (message.has_status_resource()) {
    config.status_resource = readStatusResource(message.status_resource(), errors);
  }
  if (errors.empty()) {
    config.tenant_share =
        readTenantShare(config.limits, hasManyTenants(config.tenant_sources), errors);
    checkAgainstFilter(config, policy, errors);
  }
  config.maintenance = readMaintenance(message.maintenance(), errors);
  if (message.has_encryption()) {
    config.encryption = readEncryption(message.encryption(), errors);
  }
  config.reconcile = readReconcile(message, errors);
  if (!errors.empty()) {
    return errors.status();
  }
  return config;
}

absl::StatusOr<RouteConfig> loadRouteConfig(std::string_view json) {
  v1::RouteConfig message;
  FieldErrors errors;
  readJson(json, message, errors);
  if (errors.empty() && !message.has_policy()) {
    errors.add("policy", "required; set the route's policy, such as { enforcement: REQUIRED }");
  }
  if (errors.empty()) {
    (void)readPolicy(message.policy(), errors);
  }
  if (!errors.empty()) {
    return withOperation(message.policy(), errors.status());
  }
  return RouteConfig{std::make_shared<const v1::Policy>(message.policy())};
}

absl::Status checkRunFilterConfig(std::string_view json) {
  if (json.empty()) {
    return absl::OkStatus();
  }
  v1::RunFilterConfig message;
  FieldErrors errors;
  readJson(json, message, errors);
  return errors.empty() ? absl::OkStatus() : errors.status();
}

absl::StatusOr<protocol::Policy> resolvePolicy(const FilterConfig& filter,
                                               const RouteConfig* route) {
  const v1::Policy message = overlayPolicy(orNothing(route == nullptr ? nullptr : route->policy),
                                           orNothing(filter.policy));
  FieldErrors errors;
  protocol::Policy policy = readPolicy(message, errors);
  checkAgainstFilter(filter, policy, errors);
  if (!errors.empty()) {
    return withOperation(message, errors.status());
  }
  return policy;
}

}  // namespace idempotency::config
