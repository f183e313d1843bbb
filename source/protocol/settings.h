#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "source/fingerprint/json_pointer.h"
#include "source/protocol/question_template.h"

namespace idempotency::protocol {

// The config of a filter without the policy. Plain values, validated when the config was loaded;
// the initial values are the documented defaults. Filters with equal settings may share a backend.

struct PostgresSettings {
  std::string conninfo;  // Contains no password.
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

// Maximum time that a request waits for the store.
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
  uint64_t held_bytes = 256 << 20;
  std::optional<uint32_t> tenant_in_flight;  // None: see TenantShare.
  std::optional<uint32_t> tenant_waiters;    // The same.
  bool operator==(const LimitSettings&) const = default;

  // The part of held_bytes for request bodies. The rest is for responses, whose requests have
  // already run.
  uint64_t requestBytes() const { return held_bytes - held_bytes / 4; }
};

// The share of one tenant in the limits.
struct TenantShare {
  uint32_t in_flight = 0;
  uint32_t waiters = 0;
  uint64_t request_bytes = 0;
  bool operator==(const TenantShare&) const = default;
};

struct MaintenanceSettings {
  bool enabled = true;
  std::chrono::milliseconds sweep_interval{60'000};
  std::chrono::milliseconds reap_interval{60'000};
  bool soft_expire = false;
  bool operator==(const MaintenanceSettings&) const = default;
};

struct PrivateListenerSettings {
  std::string path;
  std::chrono::milliseconds accept_timeout{5000};
  uint32_t max_runs = 10'000;
  bool operator==(const PrivateListenerSettings&) const = default;
};

struct StatusResourceSettings {
  std::string prefix;
  std::string secret_file;
  bool operator==(const StatusResourceSettings&) const = default;
};

// How a webhook's sender shows its signature.
enum class WebhookFormat : uint8_t { Generic, Stripe, StandardWebhooks };

struct WebhookKeySettings {
  std::string id;
  std::string file;
  bool operator==(const WebhookKeySettings&) const = default;
};

struct WebhookSettings {
  std::string path;
  WebhookFormat format = WebhookFormat::Generic;
  std::vector<WebhookKeySettings> keys;  // Empty: unsigned, behind Envoy's own authentication.
  std::chrono::milliseconds tolerance{300'000};
  bool operator==(const WebhookSettings&) const = default;
};

// The config of the operator filter, without the sources of its actor.
struct OperatorSettings {
  StoreSettings store;
  std::string prefix = "/idempotency";  // Without a slash at the end.
  bool read_only = false;
  std::vector<std::string> show_responses;  // Names of operations; "*": all.
  std::optional<WebhookSettings> webhook;
  uint64_t max_request_bytes = 2 << 20;
  uint32_t max_waiting = 64;
  bool operator==(const OperatorSettings&) const = default;
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

// Where an answer about an attempt has the parts of the attempt's own response. None: the answer's
// own part.
struct ResponsePointers {
  std::optional<fingerprint::JsonPointer> status;
  std::optional<fingerprint::JsonPointer> headers;
  std::optional<fingerprint::JsonPointer> body;
  bool operator==(const ResponsePointers&) const = default;
};

struct QuestionHeader {
  std::string name;  // Lower-case.
  QuestionTemplate value;
  bool operator==(const QuestionHeader&) const = default;
};

// How the upstream of some operations is asked what became of an attempt.
struct ReconcileSettings {
  std::vector<std::string> operations;  // Empty: all that no other entry names.
  std::string cluster;
  std::string method = "GET";
  QuestionTemplate path;
  std::string authority;  // The cluster's name unless the config names another.
  std::vector<QuestionHeader> headers;
  std::chrono::milliseconds timeout{1000};
  std::chrono::milliseconds interval{10'000};
  std::chrono::milliseconds max_interval{600'000};
  uint32_t max_tries = 10;
  uint32_t max_parallel = 8;
  bool absent_is_final = false;
  std::optional<std::chrono::milliseconds> absent_final_after;
  ResponsePointers response;
  bool store_response = true;
  uint64_t max_response_bytes = 1 << 20;
  bool operator==(const ReconcileSettings&) const = default;
};

// The entry that covers an operation. Null: its upstream is not asked.
inline const ReconcileSettings* entryFor(const std::vector<ReconcileSettings>& entries,
                                         const std::string& operation) {
  const ReconcileSettings* rest = nullptr;
  for (const ReconcileSettings& entry : entries) {
    if (entry.operations.empty()) {
      rest = &entry;
    } else if (std::find(entry.operations.begin(), entry.operations.end(), operation) !=
               entry.operations.end()) {
      return &entry;
    }
  }
  return rest;
}

}  // namespace idempotency::protocol
