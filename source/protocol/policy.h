#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/fingerprint.h"
#include "source/http/status_set.h"
#include "source/key/key.h"
#include "source/protocol/name_source.h"

namespace idempotency::protocol {

// The enums of a policy; idempotency.proto explains each value. Zero is the default and the safe
// choice.
enum class Enforcement : uint8_t { Off, Optional, Required };
enum class Scope : uint8_t { TenantAndOperation, Tenant };
enum class Flavor : uint8_t { Ietf, Stripe };
enum class InFlightAction : uint8_t { Reject, Accepted, Wait };
enum class StoreFailure : uint8_t { FailClosed, FailOpen };
enum class LeaseExpired : uint8_t { Unknown, Retry };
enum class ExpiredKey : uint8_t { Run, Gone };
enum class ServerErrors : uint8_t { Retry, Unknown, Keep };
enum class RespondAsync : uint8_t { Never, OnRequest, Always };

struct InFlightRules {
  InFlightAction action = InFlightAction::Reject;
  std::chrono::milliseconds wait{0};  // Greater than zero if and only if the action is Wait.
  std::chrono::seconds retry_after{1};
  bool operator==(const InFlightRules&) const = default;
};

struct DetachedRules {
  std::chrono::milliseconds timeout{60'000};
  RespondAsync respond_async = RespondAsync::Never;
  std::chrono::milliseconds max_wait{30'000};
  bool operator==(const DetachedRules&) const = default;
};

struct RequestAgeRules {
  std::string header;  // Lower-case.
  std::chrono::milliseconds limit{0};
  bool operator==(const RequestAgeRules&) const = default;
};

// Statuses that indicate a problem in a service or on the way to it: 408, 499 and 5xx.
bool isServerError(int status);

// The default statuses: 425, 429 and, with RETRY, 500 and 503; 401, 403 and 407.
http::StatusSet defaultRetryableStatuses(ServerErrors server_errors);
http::StatusSet defaultReleasedStatuses();

// The default status for a reused key: 400 with STRIPE, else 422.
uint16_t defaultMismatchStatus(Flavor flavor);

// The rules of one route, with all fallbacks resolved. Created once by resolvePolicy(), then shared
// as const: the request path only reads it, and parses nothing. The initial values are the
// documented defaults.
struct Policy {
  Enforcement enforcement = Enforcement::Off;
  std::vector<std::string> methods = {"PATCH", "POST"};  // Sorted.
  key::KeyRules key;
  Scope scope = Scope::TenantAndOperation;
  std::string operation;  // Empty: the route's name, else the path.
  fingerprint::FingerprintRules fingerprint;
  std::optional<NameSource> principal;  // Set if and only if fingerprint.principal is.
  Flavor flavor = Flavor::Ietf;
  uint16_t mismatch_status = defaultMismatchStatus(Flavor::Ietf);
  InFlightRules in_flight;
  StoreFailure on_store_failure = StoreFailure::FailClosed;
  std::chrono::milliseconds ttl{86'400'000};
  std::chrono::milliseconds lease{30'000};
  LeaseExpired on_lease_expired = LeaseExpired::Unknown;
  ExpiredKey on_expired = ExpiredKey::Run;
  // From the claim on; none means forever. Its end does not free the key.
  std::optional<std::chrono::milliseconds> unknown_retention;
  ServerErrors server_errors = ServerErrors::Retry;
  http::StatusSet retryable_statuses = defaultRetryableStatuses(ServerErrors::Retry);
  http::StatusSet released_statuses = defaultReleasedStatuses();
  uint64_t max_request_bytes = 1 << 20;
  uint64_t max_response_bytes = 1 << 20;
  bool store_response = true;
  std::vector<std::string>
      unstored_headers;  // Lower-case, sorted; in addition to those that are never stored.
  std::chrono::milliseconds completion_timeout{5000};
  std::string docs_url;  // Empty: none.
  std::optional<DetachedRules> detached;
  std::optional<RequestAgeRules> max_request_age;
  bool own_transaction = false;

  // Whether an attempt without a known outcome lets the next request run. With RETRY alone that is
  // so only after its lease; in own transactions it has no effect that could still be committed.
  bool retriesUnknown() const {
    return own_transaction && on_lease_expired == LeaseExpired::Retry;
  }
  // Whether requests with this method are protected at all.
  bool covers(std::string_view method) const;
};

}  // namespace idempotency::protocol
