#include "source/protocol/policy_fields.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

#include <absl/status/statusor.h>
#include <google/protobuf/struct.pb.h>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/protocol/config_check.h"
#include "source/protocol/duration_text.h"
#include "source/protocol/header_names.h"

namespace idempotency {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Value;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

constexpr size_t MaxMethods = 16;
constexpr size_t MaxMethodBytes = 32;
constexpr size_t MaxNameBytes = 255;
constexpr size_t MaxUrlBytes = 2048;
constexpr size_t MaxPointers = 64;
constexpr size_t MaxStatuses = 64;
constexpr size_t MaxFingerprintHeaders = 32;
constexpr size_t MaxUnstoredHeaders = 64;
constexpr uint64_t MaxBodyBytes = 64 << 20;
constexpr milliseconds MaxTtl = 720h;

// The proto's words and ours have the same numbers, so that a cast converts them.
#define IDEMPOTENCY_SAME(ours, theirs) static_assert(static_cast<int>(ours) == theirs)
IDEMPOTENCY_SAME(Enforcement::Off, v1::Policy::OFF);
IDEMPOTENCY_SAME(Enforcement::Optional, v1::Policy::OPTIONAL);
IDEMPOTENCY_SAME(Enforcement::Required, v1::Policy::REQUIRED);
IDEMPOTENCY_SAME(KeySyntax::Strict, v1::Policy::STRICT);
IDEMPOTENCY_SAME(KeySyntax::Raw, v1::Policy::RAW);
IDEMPOTENCY_SAME(KeySyntax::Either, v1::Policy::EITHER);
IDEMPOTENCY_SAME(Scope::TenantAndOperation, v1::Policy::TENANT_AND_OPERATION);
IDEMPOTENCY_SAME(Scope::Tenant, v1::Policy::TENANT);
IDEMPOTENCY_SAME(Flavor::Ietf, v1::Policy::IETF);
IDEMPOTENCY_SAME(Flavor::Stripe, v1::Policy::STRIPE);
IDEMPOTENCY_SAME(InFlightAction::Reject, v1::InFlight::REJECT);
IDEMPOTENCY_SAME(InFlightAction::Accepted, v1::InFlight::ACCEPTED);
IDEMPOTENCY_SAME(InFlightAction::Wait, v1::InFlight::WAIT);
IDEMPOTENCY_SAME(StoreFailure::FailClosed, v1::Policy::FAIL_CLOSED);
IDEMPOTENCY_SAME(StoreFailure::FailOpen, v1::Policy::FAIL_OPEN);
IDEMPOTENCY_SAME(LeaseExpired::Unknown, v1::Policy::UNKNOWN);
IDEMPOTENCY_SAME(LeaseExpired::Retry, v1::Policy::RETRY);
IDEMPOTENCY_SAME(ExpiredKey::Run, v1::Policy::RUN);
IDEMPOTENCY_SAME(ExpiredKey::Gone, v1::Policy::GONE);
IDEMPOTENCY_SAME(FingerprintMode::Canonical, v1::Fingerprint::CANONICAL);
IDEMPOTENCY_SAME(FingerprintMode::Raw, v1::Fingerprint::RAW);
IDEMPOTENCY_SAME(FingerprintMode::Selected, v1::Fingerprint::SELECTED);
IDEMPOTENCY_SAME(FingerprintMode::None, v1::Fingerprint::NONE);
#undef IDEMPOTENCY_SAME

// --- Single fields
// ----------------------------------------------------------------------------------------

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
    if (!isToken(method) || lower || method.size() > MaxMethodBytes) {
      errors.add(path, quoteForError(method), "a method in upper case, such as POST");
    } else if (Refused.contains(method)) {
      errors.add(path, quoteForError(method), "a method that can be retried with a key");
    } else if (!methods.insert(method).second) {
      errors.add(path, quoteForError(method), "each method once");
    }
  }
  return {methods.begin(), methods.end()};
}

std::optional<std::pair<int, int>> readStatus(const Value& value) {
  if (value.kind_case() == Value::kNumberValue) {
    const double number = value.number_value();
    if (number >= MinStatus && number <= MaxStatus && std::trunc(number) == number) {
      return std::pair(static_cast<int>(number), static_cast<int>(number));
    }
  } else if (value.kind_case() == Value::kStringValue) {
    if (const auto first = parseStatusClass(value.string_value())) {
      return std::pair(*first, *first + 99);
    }
  }
  return std::nullopt;
}

std::string describe(const Value& value) {
  return value.kind_case() == Value::kStringValue ? quoteForError(value.string_value())
                                                  : fmt::format("{}", value.number_value());
}

StatusSet readStatuses(std::string_view path, const ListValue& list, FieldErrors& errors) {
  checkRange(fmt::format("{} (entries)", path), static_cast<uint64_t>(list.values_size()), 0,
             MaxStatuses, errors);
  StatusSet set;
  for (int i = 0; i < list.values_size(); ++i) {
    const Value& value = list.values(i);
    const std::string entry_path = indexPath(path, static_cast<size_t>(i));
    const auto range = readStatus(value);
    if (!range.has_value()) {
      errors.add(entry_path, describe(value),
                 "a status from 100 to 599, or a class such as \"5xx\"");
      continue;
    }
    StatusSet entry;
    entry.addRange(range->first, range->second);
    if (set.firstCommon(entry).has_value()) {
      errors.add(entry_path, describe(value), "each status once");
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

uint32_t readMismatchStatus(uint32_t status, FieldErrors& errors) {
  if (status != 400 && status != 409 && status != 422) {
    errors.add("policy.mismatch_status", fmt::format("{}", status), "400, 409 or 422");
  }
  return status;
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
               "an absolute http or https URL without a fragment, up to 2048 bytes");
  }
  return url;
}

// --- Messages
// ---------------------------------------------------------------------------------------------

template <typename Pointers>
void readPointers(std::string_view path,
                  const google::protobuf::RepeatedPtrField<std::string>& texts, Pointers& pointers,
                  FieldErrors& errors) {
  checkRange(fmt::format("{} (entries)", path), static_cast<uint64_t>(texts.size()), 0, MaxPointers,
             errors);
  std::set<std::string> seen;
  for (int i = 0; i < texts.size(); ++i) {
    const std::string entry_path = indexPath(path, static_cast<size_t>(i));
    const auto pointer = JsonPointer::parse(texts[i]);
    if (!pointer.ok()) {
      errors.add(entry_path, quoteForError(texts[i]),
                 "a JSON Pointer (RFC 6901) such as \"/amount\"");
    } else if (!seen.insert(texts[i]).second) {
      errors.add(entry_path, quoteForError(texts[i]), "each pointer once");
    } else {
      pointers.push_back(*pointer);
    }
  }
}

// Headers that differ from one try to the next: with them no retry would ever match.
void refuseChangingHeaders(const v1::Fingerprint& message, FieldErrors& errors) {
  static const std::set<std::string> Changing = {
      "date",         "traceparent",  "tracestate",           "x-b3-spanid",
      "x-b3-traceid", "x-request-id", "x-envoy-attempt-count"};
  for (int i = 0; i < message.headers_size(); ++i) {
    if (Changing.contains(toLower(message.headers(i)))) {
      errors.add(indexPath("policy.fingerprint.headers", static_cast<size_t>(i)),
                 quoteForError(message.headers(i)), "a header that a retry repeats");
    }
  }
}

FingerprintChoice readFingerprint(const v1::Fingerprint& message, FieldErrors& errors) {
  FingerprintChoice choice;
  FingerprintRules& rules = choice.rules;
  rules.mode = static_cast<FingerprintMode>(message.mode());
  rules.headers = checkHeaderNames("policy.fingerprint.headers",
                                   {message.headers().begin(), message.headers().end()},
                                   MaxFingerprintHeaders, errors);
  refuseChangingHeaders(message, errors);
  readPointers("policy.fingerprint.pointers", message.pointers(), rules.pointers, errors);
  readPointers("policy.fingerprint.exclude_pointers", message.exclude_pointers(),
               rules.exclude_pointers, errors);
  rules.principal = message.has_principal();
  if (message.has_principal()) {
    choice.principal = checkSource("policy.fingerprint.principal", message.principal(), errors);
  }
  if (rules.mode == FingerprintMode::Selected && message.pointers_size() == 0) {
    errors.add("policy.fingerprint.pointers", "missing", "at least one pointer in mode SELECTED");
  }
  if (rules.mode != FingerprintMode::Selected && message.pointers_size() > 0) {
    errors.add("policy.fingerprint.pointers", "given without mode SELECTED",
               "only in mode SELECTED");
  }
  if (rules.mode != FingerprintMode::Canonical && message.exclude_pointers_size() > 0) {
    errors.add("policy.fingerprint.exclude_pointers", "given without mode CANONICAL",
               "only in mode CANONICAL");
  }
  if (rules.mode == FingerprintMode::None && message.headers_size() > 0) {
    errors.add("policy.fingerprint.headers", "given with mode NONE", "only in the other modes");
  }
  if (rules.mode == FingerprintMode::None && message.has_principal()) {
    errors.add("policy.fingerprint.principal", "given with mode NONE", "only in the other modes");
  }
  return choice;
}

InFlightRules readInFlight(const v1::InFlight& message, FieldErrors& errors) {
  InFlightRules rules;
  rules.action = static_cast<InFlightAction>(message.action());
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
  if (rules.action == InFlightAction::Wait && !message.has_wait()) {
    errors.add("policy.in_flight.wait", "missing", "0.001s to 60s, required with action WAIT");
  }
  if (rules.action != InFlightAction::Wait && message.has_wait()) {
    errors.add("policy.in_flight.wait", "given without action WAIT", "only with action WAIT");
  }
  return rules;
}

DetachedRules readDetached(const v1::Detached& message, FieldErrors& errors) {
  DetachedRules rules;
  rules.cluster = checkText("policy.detached.cluster", message.cluster(), 1, MaxNameBytes, errors);
  if (message.has_timeout()) {
    rules.timeout = checkDuration("policy.detached.timeout", message.timeout(), 1ms, 1h, errors);
  }
  return rules;
}

RequestAgeRules readRequestAge(const v1::MaxRequestAge& message, FieldErrors& errors) {
  RequestAgeRules rules;
  rules.header = checkHeaderName("policy.max_request_age.header", message.header(), errors);
  if (message.has_limit()) {
    rules.limit =
        checkDuration("policy.max_request_age.limit", message.limit(), 1s, MaxTtl, errors);
  } else {
    errors.add("policy.max_request_age.limit", "missing", "1s to 2592000s");
  }
  return rules;
}

}  // namespace

PolicyFields readPolicy(const v1::Policy& message, FieldErrors& errors) {
  PolicyFields fields;
  if (message.has_enforcement()) {
    fields.enforcement = static_cast<Enforcement>(message.enforcement());
  }
  if (message.methods_size() > 0) {
    fields.methods = readMethods(message, errors);
  }
  if (message.has_key_syntax()) {
    fields.key_syntax = static_cast<KeySyntax>(message.key_syntax());
  }
  if (message.has_min_key_length()) {
    fields.min_key_length = static_cast<uint32_t>(
        checkRange("policy.min_key_length", message.min_key_length(), 1, KeyLengthLimit, errors));
  }
  if (message.has_max_key_length()) {
    fields.max_key_length = static_cast<uint32_t>(
        checkRange("policy.max_key_length", message.max_key_length(), 1, KeyLengthLimit, errors));
  }
  if (message.has_uuid_only()) {
    fields.uuid_only = message.uuid_only();
  }
  if (message.has_scope()) {
    fields.scope = static_cast<Scope>(message.scope());
  }
  if (message.has_operation()) {
    fields.operation = checkText("policy.operation", message.operation(), 1, MaxNameBytes, errors);
  }
  if (message.has_fingerprint()) {
    fields.fingerprint = readFingerprint(message.fingerprint(), errors);
  }
  if (message.has_flavor()) {
    fields.flavor = static_cast<Flavor>(message.flavor());
  }
  if (message.has_mismatch_status()) {
    fields.mismatch_status = readMismatchStatus(message.mismatch_status(), errors);
  }
  if (message.has_in_flight()) {
    fields.in_flight = readInFlight(message.in_flight(), errors);
  }
  if (message.has_on_store_failure()) {
    fields.on_store_failure = static_cast<StoreFailure>(message.on_store_failure());
  }
  if (message.has_ttl()) {
    fields.ttl = checkDuration("policy.ttl", message.ttl(), 1s, MaxTtl, errors);
  }
  if (message.has_lease()) {
    fields.lease = checkDuration("policy.lease", message.lease(), 1s, 1h, errors);
  }
  if (message.has_on_lease_expired()) {
    fields.on_lease_expired = static_cast<LeaseExpired>(message.on_lease_expired());
  }
  if (message.has_on_expired()) {
    fields.on_expired = static_cast<ExpiredKey>(message.on_expired());
  }
  if (message.has_retryable_statuses()) {
    fields.retryable_statuses =
        readStatuses("policy.retryable_statuses", message.retryable_statuses(), errors);
  }
  if (message.has_released_statuses()) {
    fields.released_statuses =
        readStatuses("policy.released_statuses", message.released_statuses(), errors);
  }
  if (message.has_max_request_bytes()) {
    fields.max_request_bytes = checkRange("policy.max_request_bytes", message.max_request_bytes(),
                                          0, MaxBodyBytes, errors);
  }
  if (message.has_max_response_bytes()) {
    fields.max_response_bytes = checkRange("policy.max_response_bytes",
                                           message.max_response_bytes(), 0, MaxBodyBytes, errors);
  }
  if (message.has_store_response()) {
    fields.store_response = message.store_response();
  }
  if (message.has_unstored_headers()) {
    fields.unstored_headers = readUnstoredHeaders(message.unstored_headers(), errors);
  }
  if (message.has_completion_timeout()) {
    fields.completion_timeout =
        checkDuration("policy.completion_timeout", message.completion_timeout(), 10ms, 60s, errors);
  }
  if (message.has_docs_url()) {
    fields.docs_url = readDocsUrl(message.docs_url(), errors);
  }
  if (message.has_detached()) {
    fields.detached = readDetached(message.detached(), errors);
  }
  if (message.has_max_request_age()) {
    fields.max_request_age = readRequestAge(message.max_request_age(), errors);
  }
  return fields;
}

}  // namespace idempotency
