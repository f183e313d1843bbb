#include "source/protocol/policy_merge.h"

#include <fmt/format.h>

#include "source/protocol/duration_text.h"

namespace idempotency {
namespace {

constexpr size_t UuidLength = 36;

// -------------------------------------------------------------------------------

void checkAgreement(const Policy& policy, FieldErrors& errors) {
  if (policy.key.min_length > policy.key.max_length) {
    errors.add("policy.min_key_length", fmt::format("{}", policy.key.min_length),
               fmt::format("up to policy.max_key_length, which is {}", policy.key.max_length));
  }
  if (policy.key.uuid_only &&
      (policy.key.min_length > UuidLength || policy.key.max_length < UuidLength)) {
    errors.add(
        "policy.uuid_only",
        fmt::format("true with key lengths {} to {}", policy.key.min_length, policy.key.max_length),
        "only where keys of 36 characters are allowed");
  }
  if (policy.ttl < policy.lease) {
    errors.add("policy.ttl", formatDuration(policy.ttl),
               fmt::format("at least policy.lease, which is {}", formatDuration(policy.lease)));
  }
  if (policy.completion_timeout > policy.lease) {
    errors.add("policy.completion_timeout", formatDuration(policy.completion_timeout),
               fmt::format("up to policy.lease, which is {}", formatDuration(policy.lease)));
  }
  if (const auto status = policy.retryable_statuses.firstCommon(policy.released_statuses)) {
    errors.add("policy.released_statuses",
               fmt::format("{}, which is in policy.retryable_statuses too", *status),
               "statuses that are not in policy.retryable_statuses");
  }
}

// The first level that has the field; null if none has.
template <typename Field>
const Field* pick(const std::optional<Field>& route, const std::optional<Field>& filter) {
  return route.has_value() ? &*route : filter.has_value() ? &*filter : nullptr;
}

template <typename Target, typename Field>
void take(Target& target, const std::optional<Field>& route, const std::optional<Field>& filter) {
  if (const Field* field = pick(route, filter)) {
    target = static_cast<Target>(*field);
  }
}

}  // namespace

Policy mergePolicy(const PolicyFields& route, const PolicyFields& filter, FieldErrors& errors) {
  Policy policy;
  take(policy.enforcement, route.enforcement, filter.enforcement);
  take(policy.methods, route.methods, filter.methods);
  take(policy.key.syntax, route.key_syntax, filter.key_syntax);
  take(policy.key.min_length, route.min_key_length, filter.min_key_length);
  take(policy.key.max_length, route.max_key_length, filter.max_key_length);
  take(policy.key.uuid_only, route.uuid_only, filter.uuid_only);
  take(policy.scope, route.scope, filter.scope);
  take(policy.operation, route.operation, filter.operation);
  if (const FingerprintChoice* choice = pick(route.fingerprint, filter.fingerprint)) {
    policy.fingerprint = choice->rules;
    policy.principal = choice->principal;
  }
  take(policy.flavor, route.flavor, filter.flavor);
  policy.mismatch_status = policy.flavor == Flavor::Stripe ? 400 : 422;
  take(policy.mismatch_status, route.mismatch_status, filter.mismatch_status);
  take(policy.in_flight, route.in_flight, filter.in_flight);
  take(policy.on_store_failure, route.on_store_failure, filter.on_store_failure);
  take(policy.ttl, route.ttl, filter.ttl);
  take(policy.lease, route.lease, filter.lease);
  take(policy.on_lease_expired, route.on_lease_expired, filter.on_lease_expired);
  take(policy.on_expired, route.on_expired, filter.on_expired);
  take(policy.retryable_statuses, route.retryable_statuses, filter.retryable_statuses);
  take(policy.released_statuses, route.released_statuses, filter.released_statuses);
  take(policy.max_request_bytes, route.max_request_bytes, filter.max_request_bytes);
  take(policy.max_response_bytes, route.max_response_bytes, filter.max_response_bytes);
  take(policy.store_response, route.store_response, filter.store_response);
  take(policy.unstored_headers, route.unstored_headers, filter.unstored_headers);
  take(policy.completion_timeout, route.completion_timeout, filter.completion_timeout);
  take(policy.docs_url, route.docs_url, filter.docs_url);
  take(policy.detached, route.detached, filter.detached);
  take(policy.max_request_age, route.max_request_age, filter.max_request_age);
  checkAgreement(policy, errors);
  return policy;
}

}  // namespace idempotency
