#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace idempotency {

// What a filter's config says besides the policy. Plain values, validated when the config was
// loaded; the initial values are the documented defaults. Equal settings mean: may be shared.

struct PostgresSettings {
  std::string conninfo;  // Holds no password.
  std::string password_file;
  uint32_t connections = 4;
  std::chrono::milliseconds timeout{1000};
  bool allow_asynchronous_commit = false;
  bool operator==(const PostgresSettings&) const = default;
};

struct SqliteSettings {
  std::string path;
  std::chrono::milliseconds timeout{1000};
  bool operator==(const SqliteSettings&) const = default;
};

using StoreSettings = std::variant<PostgresSettings, SqliteSettings>;

// The longest that a request waits for the store.
inline std::chrono::milliseconds timeoutOf(const StoreSettings& store) {
  return std::visit([](const auto& settings) { return settings.timeout; }, store);
}

struct ReplayCacheSettings {
  uint64_t max_bytes = 16 << 20;  // 0: off.
  std::chrono::milliseconds max_age{60'000};
  bool operator==(const ReplayCacheSettings&) const = default;
};

struct LimitSettings {
  uint32_t in_flight = 10'000;
  uint64_t queue_bytes = 64 << 20;
  std::optional<uint32_t> tenant_key_rate;   // Per second; none: no limit.
  std::optional<uint64_t> tenant_live_keys;  // None: no limit.
  bool operator==(const LimitSettings&) const = default;
};

struct MaintenanceSettings {
  bool enabled = true;
  std::chrono::milliseconds sweep_interval{60'000};
  std::chrono::milliseconds reap_interval{60'000};
  bool soft_expire = false;
  bool operator==(const MaintenanceSettings&) const = default;
};

struct EncryptionKeySettings {
  std::string id;
  std::string file;
  bool operator==(const EncryptionKeySettings&) const = default;
};

struct EncryptionSettings {
  std::vector<EncryptionKeySettings> keys;  // The first encrypts; never empty.
  bool operator==(const EncryptionSettings&) const = default;
};

struct ReconcileSettings {
  std::string cluster;
  std::string path;
  std::string authority;  // The cluster's name unless the config names another.
  std::chrono::milliseconds timeout{1000};
  std::chrono::milliseconds first_delay{10'000};
  std::chrono::milliseconds max_delay{600'000};
  uint32_t max_attempts = 10;
  bool operator==(const ReconcileSettings&) const = default;
};

}  // namespace idempotency
