#include "source/config/policy_check.h"

#include <fmt/format.h>

#include "source/config/duration_text.h"

namespace idempotency::config {
namespace {

// UNKNOWN and KEEP apply to every server error, so a list that treats one differently conflicts
// with them.
void checkServerErrors(std::string_view path, const http::StatusSet& list,
                       const protocol::Policy& policy, FieldErrors& errors) {
  if (policy.server_errors == protocol::ServerErrors::Retry) {
    return;
  }
  for (int status = http::MinStatus; status <= http::MaxStatus; ++status) {
    if (protocol::isServerError(status) && list.contains(status)) {
      const bool keep = policy.server_errors == protocol::ServerErrors::Keep;
      errors.add(path,
                 fmt::format("{} is not allowed with policy.server_errors {}; 408, 499 and 5xx "
                             "require policy.server_errors RETRY",
                             status, keep ? "KEEP" : "UNKNOWN"));
      return;
    }
  }
}

}  // namespace

void checkAgreement(const protocol::Policy& policy, FieldErrors& errors) {
  if (policy.key.min_length > policy.key.max_length) {
    errors.add("policy.min_key_length", fmt::format("{}", policy.key.min_length),
               fmt::format("at most policy.max_key_length ({})", policy.key.max_length));
  }
  if (policy.key.uuid_only &&
      (policy.key.min_length > key::UuidLength || policy.key.max_length < key::UuidLength)) {
    errors.add("policy.uuid_only",
               fmt::format("a UUID has {} characters, but keys of {} to {} are allowed",
                           key::UuidLength, policy.key.min_length, policy.key.max_length));
  }
  if (policy.ttl < policy.lease) {
    errors.add("policy.ttl", formatDuration(policy.ttl),
               fmt::format("at least policy.lease ({})", formatDuration(policy.lease)));
  }
  if (policy.completion_timeout > policy.lease) {
    errors.add("policy.completion_timeout", formatDuration(policy.completion_timeout),
               fmt::format("at most policy.lease ({})", formatDuration(policy.lease)));
  }
  checkServerErrors("policy.retryable_statuses", policy.retryable_statuses, policy, errors);
  checkServerErrors("policy.released_statuses", policy.released_statuses, policy, errors);
  if (const auto status = policy.retryable_statuses.firstCommon(policy.released_statuses)) {
    errors.add("policy.released_statuses",
               fmt::format("{} is also in policy.retryable_statuses", *status));
  }
}

}  // namespace idempotency::config
