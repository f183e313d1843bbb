#include "source/config/policy_reader.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/struct.pb.h>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/config_check.h"
#include "source/config/duration_text.h"
#include "source/config/fingerprint_config.h"
#include "source/config/policy_check.h"
#include "source/http/header_names.h"

namespace idempotency::config {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Value;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr size_t MaxMethods = 16;
constexpr size_t MaxMethodBytes = 32;
constexpr size_t MaxUrlBytes = 2048;
constexpr size_t MaxStatuses = 64;
constexpr size_t MaxUnstoredHeaders = 64;
constexpr uint64_t MaxBodyBytes = 64 << 20;
constexpr milliseconds MaxTtl = 720h;
constexpr milliseconds MaxUnknownRetention = std::chrono::hours(24 * 365 * 10);

// The enums of the proto and ours have the same numbers, so a cast converts them.
#define IDEMPOTENCY_SAME(ours, theirs) static_assert(static_cast<int>(ours) == theirs)
IDEMPOTENCY_SAME(protocol::Enforcement::Off, v1::Policy::OFF);
IDEMPOTENCY_SAME(protocol::Enforcement::Optional, v1::Policy::OPTIONAL);
IDEMPOTENCY_SAME(protocol::Enforcement::Required, v1::Policy::REQUIRED);
IDEMPOTENCY_SAME(key::KeySyntax::Strict, v1::Policy::STRICT);
IDEMPOTENCY_SAME(key::KeySyntax::Raw, v1::Policy::RAW);
IDEMPOTENCY_SAME(key::KeySyntax::Either, v1::Policy::EITHER);
IDEMPOTENCY_SAME(protocol::Scope::TenantAndOperation, v1::Policy::TENANT_AND_OPERATION);
IDEMPOTENCY_SAME(protocol::Scope::Tenant, v1::Policy::TENANT);
IDEMPOTENCY_SAME(protocol::Flavor::Ietf, v1::Policy::IETF);
IDEMPOTENCY_SAME(protocol::Flavor::Stripe, v1::Policy::STRIPE);
IDEMPOTENCY_SAME(protocol::InFlightAction::Reject, v1::InFlight::REJECT);
IDEMPOTENCY_SAME(protocol::InFlightAction::Accepted, v1::InFlight::ACCEPTED);
IDEMPOTENCY_SAME(protocol::InFlightAction::Wait, v1::InFlight::WAIT);
IDEMPOTENCY_SAME(protocol::StoreFailure::FailClosed, v1::Policy::FAIL_CLOSED);
IDEMPOTENCY_SAME(protocol::StoreFailure::FailOpen, v1::Policy::FAIL_OPEN);
IDEMPOTENCY_SAME(protocol::LeaseExpired::Unknown, v1::Policy::UNKNOWN);
IDEMPOTENCY_SAME(protocol::LeaseExpired::Retry, v1::Policy::RETRY);
IDEMPOTENCY_SAME(protocol::ExpiredKey::Run, v1::Policy::RUN);
IDEMPOTENCY_SAME(protocol::ExpiredKey::Gone, v1::Policy::GONE);
IDEMPOTENCY_SAME(protocol::ServerErrors::Retry, v1::RETRY);
IDEMPOTENCY_SAME(protocol::ServerErrors::Unknown, v1::UNKNOWN);
IDEMPOTENCY_SAME(protocol::ServerErrors::Keep, v1::KEEP);
IDEMPOTENCY_SAME(protocol::RespondAsync::Never, v1::Detached::NEVER);
IDEMPOTENCY_SAME(protocol::RespondAsync::OnRequest, v1::Detached::ON_REQUEST);
IDEMPOTENCY_SAME(protocol::RespondAsync::Always, v1::Detached::ALWAYS);
#undef IDEMPOTENCY_SAME

std::vector<std::string> readMethods(const v1::Policy& message, FieldErrors& errors) {
  checkRange("policy.methods (entries)", static_cast<uint64_t>(message.methods_size()), 1,
             MaxMethods, errors);
  static const std::set<std::string> Refused = {"CONNECT", "OPTIONS", "TRACE"};
  std::set<std::string> methods;
  for (int i = 0; i < message.methods_size(); ++i) {
    const std::string path = indexPath("policy.methods", static_cast<size_t>(i));
    const std::string& method = message.methods(i);
    const bool lower =
        std::any_of(method.begin(), method.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    if (!http::isToken(method) || lower || method.size() > MaxMethodBytes) {
      errors.add(path, quoteForError(method), "a method in upper case, such as POST");
    } else if (Refused.contains(method)) {
      errors.add(path, fmt::format("{} is not allowed; such requests cannot be protected",
                                   quoteForError(method)));
    } else if (!methods.insert(method).second) {
      errors.add(path, fmt::format("duplicate method {}", quoteForError(method)));
    }
  }
  return {methods.begin(), methods.end()};
}

std::optional<std::pair<int, int>> readStatus(const Value& value) {
  if (value.kind_case() == Value::kNumberValue) {
    const double number = value.number_value();
    if (number >= http::MinStatus && number <= http::MaxStatus && std::trunc(number) == number) {
      return std::pair(static_cast<int>(number), static_cast<int>(number));
    }
  } else if (value.kind_case() == Value::kStringValue) {
    if (const auto first = http::parseStatusClass(value.string_value())) {
      return std::pair(*first, *first + 99);
    }
  }
  return std::nullopt;
}

std::string describe(const Value& value) {
  return value.kind_case() == Value::kStringValue ? quoteForError(value.string_value())
                                                  : fmt::format("{}", value.number_value());
}

http::StatusSet readStatuses(std::string_view path, const ListValue& list, FieldErrors& errors) {
  checkRange(fmt::format("{} (entries)", path), static_cast<uint64_t>(list.values_size()), 0,
             MaxStatuses, errors);
  http::StatusSet set;
  for (int i = 0; i < list.values_size(); ++i) {
    const Value& value = list.values(i);
    const std::string entry_path = indexPath(path, static_cast<size_t>(i));
    const auto range = readStatus(value);
    if (!range.has_value()) {
      errors.add(entry_path, describe(value),
                 "a status from 100 to 599, or a class such as \"5xx\"");
      continue;
    }
    http::StatusSet entry;
    entry.addRange(range->first, range->second);
    if (set.firstCommon(entry).has_value()) {
      errors.add(entry_path, fmt::format("{} overlaps an earlier entry", describe(value)));
    }
    set.addRange(range->first, range->second);
  }
  return set;
}

std::vector<std::string> readUnstoredHeaders(const ListValue& list, FieldErrors& errors) {
  std::vector<std::string> names;
  for (int i = 0; i < list.values_size(); ++i) {
    if (list.values(i).kind_case() == Value::kStringValue) {
      names.push_back(list.values(i).string_value());
    } else {
      errors.add(indexPath("policy.unstored_headers", static_cast<size_t>(i)),
                 describe(list.values(i)), "a header name");
    }
  }
  return checkHeaderNames("policy.unstored_headers", names, MaxUnstoredHeaders, errors);
}

uint16_t readMismatchStatus(uint32_t status, FieldErrors& errors) {
  if (status != 400 && status != 409 && status != 422) {
    errors.add("policy.mismatch_status", fmt::format("{}", status), "400, 409 or 422");
  }
  return static_cast<uint16_t>(status);
}

std::string readDocsUrl(const std::string& url, FieldErrors& errors) {
  const bool absolute = url.starts_with("https://") || url.starts_with("http://");
  const bool has_host =
      absolute && url.size() > url.find("//") + 2 && url[url.find("//") + 2] != '/';
  const bool safe = std::all_of(url.begin(), url.end(), [](char c) {
    return c > 0x20 && c < 0x7f &&
           std::string_view("<>\"\\^`{|}#").find(c) == std::string_view::npos;
  });
  if (!has_host || !safe || url.size() > MaxUrlBytes) {
    errors.add("policy.docs_url", quoteForError(url),
               "an absolute http or https URL of at most 2048 bytes, without a fragment");
  }
  return url;
}

protocol::InFlightRules readInFlight(const v1::InFlight& message, FieldErrors& errors) {
  protocol::InFlightRules rules;
  rules.action = static_cast<protocol::InFlightAction>(message.action());
  if (message.has_wait()) {
    rules.wait = checkDuration("policy.in_flight.wait", message.wait(), 1ms, 60s, errors);
  }
  if (message.has_retry_after()) {
    const milliseconds retry_after =
        checkDuration("policy.in_flight.retry_after", message.retry_after(), 1s, 1h, errors);
    rules.retry_after = std::chrono::floor<std::chrono::seconds>(retry_after);
    if (rules.retry_after != retry_after) {
      errors.add("policy.in_flight.retry_after", formatDuration(retry_after), "whole seconds");
    }
  }
  if (rules.action == protocol::InFlightAction::Wait && !message.has_wait()) {
    errors.add("policy.in_flight.wait", "required with action WAIT; set 0.001s to 60s");
  }
  if (rules.action != protocol::InFlightAction::Wait && message.has_wait()) {
    errors.add("policy.in_flight.wait", "requires action WAIT");
  }
  return rules;
}

protocol::DetachedRules readDetached(const v1::Detached& message, FieldErrors& errors) {
  protocol::DetachedRules rules;
  if (message.has_timeout()) {
    rules.timeout = checkDuration("policy.detached.timeout", message.timeout(), 1ms, 1h, errors);
  }
  if (message.has_respond_async()) {
    rules.respond_async = static_cast<protocol::RespondAsync>(message.respond_async());
  }
  if (message.has_max_wait()) {
    rules.max_wait =
        checkDuration("policy.detached.max_wait", message.max_wait(), 0ms, 60s, errors);
  }
  return rules;
}

protocol::RequestAgeRules readRequestAge(const v1::MaxRequestAge& message, FieldErrors& errors) {
  protocol::RequestAgeRules rules;
  rules.header = checkHeaderName("policy.max_request_age.header", message.header(), errors);
  if (message.has_limit()) {
    rules.limit =
        checkDuration("policy.max_request_age.limit", message.limit(), 1s, MaxTtl, errors);
  } else {
    errors.add("policy.max_request_age.limit", "required; set 1s to 2592000s");
  }
  return rules;
}

// --- Groups of fields
// -------------------------------------------------------------------------------------
// Each function below reads the fields that belong together into the policy, where they have their
// defaults already.

void readKeyRules(const v1::Policy& message, key::KeyRules& rules, FieldErrors& errors) {
  if (message.has_key_syntax()) {
    rules.syntax = static_cast<key::KeySyntax>(message.key_syntax());
  }
  if (message.has_min_key_length()) {
    rules.min_length = checkRange("policy.min_key_length", message.min_key_length(), 1,
                                  key::KeyLengthLimit, errors);
  }
  if (message.has_max_key_length()) {
    rules.max_length = checkRange("policy.max_key_length", message.max_key_length(), 1,
                                  key::KeyLengthLimit, errors);
  }
  if (message.has_uuid_only()) {
    rules.uuid_only = message.uuid_only();
  }
}

// Which requests are protected, and which of them are the same request.
void readRequestRules(const v1::Policy& message, protocol::Policy& policy, FieldErrors& errors) {
  if (message.has_enforcement()) {
    policy.enforcement = static_cast<protocol::Enforcement>(message.enforcement());
  }
  if (message.methods_size() > 0) {
    policy.methods = readMethods(message, errors);
  }
  readKeyRules(message, policy.key, errors);
  if (message.has_scope()) {
    policy.scope = static_cast<protocol::Scope>(message.scope());
  }
  if (message.has_operation()) {
    policy.operation = checkName("policy.operation", message.operation(), errors);
  }
  if (message.has_fingerprint()) {
    readFingerprint(message.fingerprint(), policy, errors);
  }
  if (message.has_max_request_bytes()) {
    policy.max_request_bytes = checkRange("policy.max_request_bytes", message.max_request_bytes(),
                                          0, MaxBodyBytes, errors);
  }
  if (message.has_max_request_age()) {
    policy.max_request_age = readRequestAge(message.max_request_age(), errors);
  }
}

// What the filter answers in place of the upstream.
void readAnswers(const v1::Policy& message, protocol::Policy& policy, FieldErrors& errors) {
  if (message.has_flavor()) {
    policy.flavor = static_cast<protocol::Flavor>(message.flavor());
  }
  policy.mismatch_status = message.has_mismatch_status()
                               ? readMismatchStatus(message.mismatch_status(), errors)
                               : protocol::defaultMismatchStatus(policy.flavor);
  if (message.has_in_flight()) {
    policy.in_flight = readInFlight(message.in_flight(), errors);
  }
  if (message.has_on_store_failure()) {
    policy.on_store_failure = static_cast<protocol::StoreFailure>(message.on_store_failure());
  }
  if (message.has_docs_url()) {
    policy.docs_url = readDocsUrl(message.docs_url(), errors);
  }
}

void readLifetimes(const v1::Policy& message, protocol::Policy& policy, FieldErrors& errors) {
  if (message.has_ttl()) {
    policy.ttl = checkDuration("policy.ttl", message.ttl(), 1s, MaxTtl, errors);
  }
  if (message.has_lease()) {
    policy.lease = checkDuration("policy.lease", message.lease(), 1s, 1h, errors);
  }
  if (message.has_on_lease_expired()) {
    policy.on_lease_expired = static_cast<protocol::LeaseExpired>(message.on_lease_expired());
  }
  if (message.has_on_expired()) {
    policy.on_expired = static_cast<protocol::ExpiredKey>(message.on_expired());
  }
  if (message.has_unknown_retention()) {
    policy.unknown_retention = checkDuration(
        "policy.unknown_retention", message.unknown_retention(), 1s, MaxUnknownRetention, errors);
  }
  if (message.has_completion_timeout()) {
    policy.completion_timeout =
        checkDuration("policy.completion_timeout", message.completion_timeout(), 10ms, 60s, errors);
  }
}

// What the upstream's response means, and what of it is stored.
void readResponseRules(const v1::Policy& message, protocol::Policy& policy, FieldErrors& errors) {
  if (message.has_server_errors()) {
    policy.server_errors = static_cast<protocol::ServerErrors>(message.server_errors());
  }
  policy.retryable_statuses =
      message.has_retryable_statuses()
          ? readStatuses("policy.retryable_statuses", message.retryable_statuses(), errors)
          : protocol::defaultRetryableStatuses(policy.server_errors);
  if (message.has_released_statuses()) {
    policy.released_statuses =
        readStatuses("policy.released_statuses", message.released_statuses(), errors);
  }
  if (message.has_max_response_bytes()) {
    policy.max_response_bytes = checkRange("policy.max_response_bytes",
                                           message.max_response_bytes(), 0, MaxBodyBytes, errors);
  }
  if (message.has_store_response()) {
    policy.store_response = message.store_response();
  }
  if (message.has_unstored_headers()) {
    policy.unstored_headers = readUnstoredHeaders(message.unstored_headers(), errors);
  }
  if (message.has_detached()) {
    policy.detached = readDetached(message.detached(), errors);
  }
  if (message.has_own_transaction()) {
    policy.own_transaction = message.own_transaction();
  }
}

}  // namespace

v1::Policy overlayPolicy(const v1::Policy& route, v1::Policy filter) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  route.GetReflection()->ListFields(route, &fields);
  // MergeFrom() alone would append to lists and mix the fields of messages.
  for (const auto* field : fields) {
    filter.GetReflection()->ClearField(&filter, field);
  }
  filter.MergeFrom(route);
  return filter;
}

protocol::Policy readPolicy(const v1::Policy& message, FieldErrors& errors) {
  protocol::Policy policy;
  FieldErrors own;
  readRequestRules(message, policy, own);
  readAnswers(message, policy, own);
  readLifetimes(message, policy, own);
  readResponseRules(message, policy, own);
  // Values that are wrong by themselves would only cause follow-up errors.
  if (own.empty()) {
    checkAgreement(policy, own);
  }
  errors.append(own);
  return policy;
}

}  // namespace idempotency::config
