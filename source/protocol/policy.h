#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/fingerprint.h"
#include "source/key/key.h"
#include "source/protocol/name_source.h"
#include "source/protocol/status_set.h"

namespace idempotency {

// The words of a policy; idempotency.proto says what each means. Zero is the default and the safe
// choice.
enum class Enforcement : uint8_t { Off, Optional, Required };
enum class Scope : uint8_t { TenantAndOperation, Tenant };
enum class Flavor : uint8_t { Ietf, Stripe };
enum class InFlightAction : uint8_t { Reject, Accepted, Wait };
enum class StoreFailure : uint8_t { FailClosed, FailOpen };
enum class LeaseExpired : uint8_t { Unknown, Retry };
enum class ExpiredKey : uint8_t { Run, Gone };

struct InFlightRules {
  InFlightAction action = InFlightAction::Reject;
  std::chrono::milliseconds wait{0};  // Above zero exactly when the action is Wait.
  std::chrono::seconds retry_after{1};
  bool operator==(const InFlightRules&) const = default;
};

struct DetachedRules {
  std::string cluster;
  std::chrono::milliseconds timeout{60'000};
  bool operator==(const DetachedRules&) const = default;
};

struct RequestAgeRules {
  std::string header;  // Lower-case.
  std::chrono::milliseconds limit{0};
  bool operator==(const RequestAgeRules&) const = default;
};

// The default statuses: 408, 425, 429 and 5xx; 401, 403 and 407.
StatusSet defaultRetryableStatuses();
StatusSet defaultReleasedStatuses();

// The rules of one route with all fall-backs resolved. Made once, when the config is known, by
// resolvePolicy(); then shared as const: the request path only reads it and parses nothing. The
// initial values are the documented defaults.
struct Policy {
  Enforcement enforcement = Enforcement::Off;
  std::vector<std::string> methods = {"PATCH", "POST"};  // Sorted.
  KeyRules key;
  Scope scope = Scope::TenantAndOperation;
  std::string operation;  // Empty: the route's name, else the path.
  FingerprintRules fingerprint;
  std::optional<NameSource> principal;  // Set exactly when fingerprint.principal is.
  Flavor flavor = Flavor::Ietf;
  uint16_t mismatch_status = 422;
  InFlightRules in_flight;
  StoreFailure on_store_failure = StoreFailure::FailClosed;
  std::chrono::milliseconds ttl{86'400'000};
  std::chrono::milliseconds lease{30'000};
  LeaseExpired on_lease_expired = LeaseExpired::Unknown;
  ExpiredKey on_expired = ExpiredKey::Run;
  StatusSet retryable_statuses = defaultRetryableStatuses();
  StatusSet released_statuses = defaultReleasedStatuses();
  uint64_t max_request_bytes = 1 << 20;
  uint64_t max_response_bytes = 1 << 20;
  bool store_response = true;
  std::vector<std::string>
      unstored_headers;  // Lower-case, sorted; besides those that are never stored.
  std::chrono::milliseconds completion_timeout{5000};
  std::string docs_url;  // Empty: none.
  std::optional<DetachedRules> detached;
  std::optional<RequestAgeRules> max_request_age;

  // Whether requests with this method are protected at all.
  bool covers(std::string_view method) const;
};

}  // namespace idempotency
