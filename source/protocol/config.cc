#include "source/protocol/config.h"

#include <fmt/format.h>
#include <set>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/protocol/config_check.h"
#include "source/protocol/conninfo.h"
#include "source/protocol/duration_text.h"
#include "source/protocol/json_message.h"
#include "source/protocol/policy_merge.h"

namespace idempotency {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr size_t MaxNameBytes = 255;
constexpr size_t MaxConninfoBytes = 4096;
constexpr size_t MaxSources = 8;
constexpr size_t MaxEncryptionKeys = 16;
constexpr size_t MaxEncryptionIdBytes = 32;

std::string readConninfo(const std::string& conninfo, FieldErrors& errors) {
  constexpr std::string_view Path = "store.postgres.conninfo";
  if (conninfo.empty()) {
    errors.add(Path, "missing", "a libpq connection string");
  } else if (conninfo.size() > MaxConninfoBytes) {
    errors.add(Path, fmt::format("{} bytes", conninfo.size()),
               fmt::format("up to {} bytes", MaxConninfoBytes));
  } else {
    switch (inspectConninfo(conninfo)) {
      case ConninfoContent::Malformed:
        errors.add(Path, "not a connection string (not shown)",
                   "word=value pairs or a postgresql:// URI");
        break;
      case ConninfoContent::Password:
        errors.add(Path, "holds a password (not shown), which Envoy's config dump would show",
                   "no password here; use password_file, PGPASSWORD or a pass file");
        break;
      case ConninfoContent::Clean:
        break;
    }
  }
  return conninfo;
}

PostgresSettings readPostgres(const v1::Postgres& message, FieldErrors& errors) {
  PostgresSettings settings;
  settings.conninfo = readConninfo(message.conninfo(), errors);
  if (message.has_password_file()) {
    settings.password_file =
        checkFile("store.postgres.password_file", message.password_file(), errors);
  }
  if (message.has_connections()) {
    settings.connections = static_cast<uint32_t>(
        checkRange("store.postgres.connections", message.connections(), 1, 64, errors));
  }
  if (message.has_timeout()) {
    settings.timeout =
        checkDuration("store.postgres.timeout", message.timeout(), 10ms, 60s, errors);
  }
  settings.allow_asynchronous_commit = message.allow_asynchronous_commit();
  return settings;
}

SqliteSettings readSqlite(const v1::Sqlite& message, FieldErrors& errors) {
  SqliteSettings settings;
  settings.path = checkFile("store.sqlite.path", message.path(), errors);
  if (message.has_timeout()) {
    settings.timeout = checkDuration("store.sqlite.timeout", message.timeout(), 10ms, 60s, errors);
  }
  return settings;
}

StoreSettings readStore(const v1::Store& message, FieldErrors& errors) {
  switch (message.kind_case()) {
    case v1::Store::kPostgres:
      return readPostgres(message.postgres(), errors);
    case v1::Store::kSqlite:
      return readSqlite(message.sqlite(), errors);
    case v1::Store::KIND_NOT_SET:
      break;
  }
  errors.add("store", "missing", "{ postgres: … } or { sqlite: … }");
  return {};
}

std::vector<NameSource> readTenant(const v1::Tenant& message, FieldErrors& errors) {
  if (message.sources_size() == 0) {
    errors.add("tenant.sources", "missing",
               "1 to 8 sources; [ { fixed: \"\" } ] for an API with a single tenant");
    return {};
  }
  checkRange("tenant.sources (entries)", static_cast<uint64_t>(message.sources_size()), 1,
             MaxSources, errors);
  std::vector<NameSource> sources;
  for (int i = 0; i < message.sources_size(); ++i) {
    const std::string path = indexPath("tenant.sources", static_cast<size_t>(i));
    NameSource source = checkSource(path, message.sources(i), errors);
    for (const NameSource& earlier : sources) {
      if (earlier == source) {
        errors.add(path, "the same as an earlier source", "each source once");
      }
    }
    if (!sources.empty() && std::holds_alternative<FixedSource>(sources.back())) {
      errors.add(path, "after a fixed source, so never asked", "a fixed source only as the last");
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

ReplayCacheSettings readReplayCache(const v1::ReplayCache& message, FieldErrors& errors) {
  ReplayCacheSettings settings;
  if (message.has_max_bytes()) {
    settings.max_bytes =
        checkRange("replay_cache.max_bytes", message.max_bytes(), 0, uint64_t{16} << 30, errors);
  }
  if (message.has_max_age()) {
    settings.max_age = checkDuration("replay_cache.max_age", message.max_age(), 1s, 24h, errors);
  }
  return settings;
}

LimitSettings readLimits(const v1::Limits& message, FieldErrors& errors) {
  LimitSettings settings;
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
  return settings;
}

MaintenanceSettings readMaintenance(const v1::Maintenance& message, FieldErrors& errors) {
  MaintenanceSettings settings;
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

void checkKeyId(std::string_view path, const std::string& id, FieldErrors& errors) {
  const bool plain =
      id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
      std::string::npos;
  if (id.empty() || id.size() > MaxEncryptionIdBytes || !plain) {
    errors.add(path, id.empty() ? "empty" : quoteForError(id), "1 to 32 of A-Z a-z 0-9 . _ -");
  }
}

EncryptionSettings readEncryption(const v1::Encryption& message, FieldErrors& errors) {
  if (message.keys_size() == 0) {
    errors.add("encryption.keys", "missing", "1 to 16 keys");
    return {};
  }
  checkRange("encryption.keys (entries)", static_cast<uint64_t>(message.keys_size()), 1,
             MaxEncryptionKeys, errors);
  EncryptionSettings settings;
  std::set<std::string> ids;
  for (int i = 0; i < message.keys_size(); ++i) {
    const std::string path = indexPath("encryption.keys", static_cast<size_t>(i));
    const v1::EncryptionKey& key = message.keys(i);
    checkKeyId(joinPath(path, "id"), key.id(), errors);
    if (!ids.insert(key.id()).second) {
      errors.add(joinPath(path, "id"), quoteForError(key.id()), "each id once");
    }
    settings.keys.push_back({key.id(), checkFile(joinPath(path, "file"), key.file(), errors)});
  }
  return settings;
}

ReconcileSettings readReconcile(const v1::Reconcile& message, FieldErrors& errors) {
  ReconcileSettings settings;
  settings.cluster = checkText("reconcile.cluster", message.cluster(), 1, MaxNameBytes, errors);
  settings.path = checkText("reconcile.path", message.path(), 1, MaxNameBytes, errors);
  if (!settings.path.empty() && (!settings.path.starts_with('/') ||
                                 settings.path.find_first_of("?# ") != std::string::npos)) {
    errors.add("reconcile.path", quoteForError(settings.path),
               "a path that starts with a slash, without query, fragment and spaces");
  }
  settings.authority = settings.cluster;
  if (message.has_authority()) {
    settings.authority =
        checkText("reconcile.authority", message.authority(), 1, MaxNameBytes, errors);
  }
  if (message.has_timeout()) {
    settings.timeout = checkDuration("reconcile.timeout", message.timeout(), 10ms, 60s, errors);
  }
  if (message.has_first_delay()) {
    settings.first_delay =
        checkDuration("reconcile.first_delay", message.first_delay(), 1s, 1h, errors);
  }
  if (message.has_max_delay()) {
    settings.max_delay = checkDuration("reconcile.max_delay", message.max_delay(), 1s, 24h, errors);
  }
  if (settings.first_delay > settings.max_delay) {
    errors.add(
        "reconcile.first_delay", formatDuration(settings.first_delay),
        fmt::format("up to reconcile.max_delay, which is {}", formatDuration(settings.max_delay)));
  }
  if (message.has_max_attempts()) {
    settings.max_attempts = static_cast<uint32_t>(
        checkRange("reconcile.max_attempts", message.max_attempts(), 1, 1000, errors));
  }
  return settings;
}

// A level's policy, its fields also checked against each other.
PolicyFields readLevel(const v1::Policy& message, FieldErrors& errors) {
  FieldErrors single;
  PolicyFields fields = readPolicy(message, single);
  // Values that are wrong by themselves would only bring follow-up errors.
  if (single.empty()) {
    (void)mergePolicy(fields, {}, single);
  }
  errors.append(single);
  return fields;
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
  config.policy = readLevel(message.policy(), errors);
  config.replay_cache = readReplayCache(message.replay_cache(), errors);
  config.limits = readLimits(message.limits(), errors);
  config.maintenance = readMaintenance(message.maintenance(), errors);
  if (message.has_encryption()) {
    config.encryption = readEncryption(message.encryption(), errors);
  }
  if (message.has_reconcile()) {
    config.reconcile = readReconcile(message.reconcile(), errors);
  }
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
    errors.add("policy", "missing", "the route's policy, such as { enforcement: REQUIRED }");
  }
  if (!errors.empty()) {
    return errors.status();
  }
  RouteConfig config{readLevel(message.policy(), errors)};
  if (!errors.empty()) {
    return errors.status();
  }
  return config;
}

absl::StatusOr<Policy> resolvePolicy(const FilterConfig& filter, const RouteConfig* route) {
  FieldErrors errors;
  Policy policy =
      mergePolicy(route == nullptr ? PolicyFields{} : route->policy, filter.policy, errors);
  if (!errors.empty()) {
    return errors.status();
  }
  return policy;
}

}  // namespace idempotency
