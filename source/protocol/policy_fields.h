#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "source/protocol/policy.h"

namespace idempotency {

namespace v1 {
class Policy;
}
class FieldErrors;

// What counts of a request, and who the principal is: one value in the config, so one value here.
struct FingerprintChoice {
  FingerprintRules rules;
  std::optional<NameSource> principal;
};

// What one level of the config (a route, or the filter) says: a policy with holes. Parsed and
// validated.
struct PolicyFields {
  std::optional<Enforcement> enforcement;
  std::optional<std::vector<std::string>> methods;
  std::optional<KeySyntax> key_syntax;
  std::optional<uint32_t> min_key_length;
  std::optional<uint32_t> max_key_length;
  std::optional<bool> uuid_only;
  std::optional<Scope> scope;
  std::optional<std::string> operation;
  std::optional<FingerprintChoice> fingerprint;
  std::optional<Flavor> flavor;
  std::optional<uint32_t> mismatch_status;
  std::optional<InFlightRules> in_flight;
  std::optional<StoreFailure> on_store_failure;
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::milliseconds> lease;
  std::optional<LeaseExpired> on_lease_expired;
  std::optional<ExpiredKey> on_expired;
  std::optional<StatusSet> retryable_statuses;
  std::optional<StatusSet> released_statuses;
  std::optional<uint64_t> max_request_bytes;
  std::optional<uint64_t> max_response_bytes;
  std::optional<bool> store_response;
  std::optional<std::vector<std::string>> unstored_headers;
  std::optional<std::chrono::milliseconds> completion_timeout;
  std::optional<std::string> docs_url;
  std::optional<DetachedRules> detached;
  std::optional<RequestAgeRules> max_request_age;
};

// Reads the message; what is wrong in it goes to `errors`, with paths that start with "policy.".
PolicyFields readPolicy(const v1::Policy& message, FieldErrors& errors);

}  // namespace idempotency
