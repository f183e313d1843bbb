#include "source/config/fingerprint_config.h"

#include <fmt/format.h>
#include <set>
#include <string>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/config_check.h"
#include "source/http/header_names.h"

namespace idempotency::config {
namespace {

constexpr size_t MaxPointers = 64;
constexpr size_t MaxHeaders = 32;

// The enums of the proto and ours have the same numbers, so a cast converts them.
#define IDEMPOTENCY_SAME(ours, theirs) static_assert(static_cast<int>(ours) == theirs)
IDEMPOTENCY_SAME(fingerprint::FingerprintMode::Canonical, v1::Fingerprint::CANONICAL);
IDEMPOTENCY_SAME(fingerprint::FingerprintMode::Raw, v1::Fingerprint::RAW);
IDEMPOTENCY_SAME(fingerprint::FingerprintMode::Selected, v1::Fingerprint::SELECTED);
IDEMPOTENCY_SAME(fingerprint::FingerprintMode::None, v1::Fingerprint::NONE);
IDEMPOTENCY_SAME(fingerprint::QueryOrder::Sorted, v1::Fingerprint::SORTED);
IDEMPOTENCY_SAME(fingerprint::QueryOrder::AsSent, v1::Fingerprint::AS_SENT);
#undef IDEMPOTENCY_SAME

template <typename Pointers>
void readPointers(std::string_view path,
                  const google::protobuf::RepeatedPtrField<std::string>& texts, Pointers& pointers,
                  FieldErrors& errors) {
  checkRange(fmt::format("{} (entries)", path), static_cast<uint64_t>(texts.size()), 0, MaxPointers,
             errors);
  std::set<std::string> seen;
  for (int i = 0; i < texts.size(); ++i) {
    const std::string entry_path = indexPath(path, static_cast<size_t>(i));
    const auto pointer = fingerprint::JsonPointer::parse(texts[i]);
    if (!pointer.ok()) {
      errors.add(entry_path, quoteForError(texts[i]),
                 "a JSON Pointer (RFC 6901), such as \"/amount\"");
    } else if (!seen.insert(texts[i]).second) {
      errors.add(entry_path, fmt::format("duplicate pointer {}", quoteForError(texts[i])));
    } else {
      pointers.push_back(*pointer);
    }
  }
}

// Headers that differ between the attempts of one request: with them, no retry would ever match.
void refuseChangingHeaders(const v1::Fingerprint& message, FieldErrors& errors) {
  static const std::set<std::string> Changing = {
      "date",         "traceparent",  "tracestate",           "x-b3-spanid",
      "x-b3-traceid", "x-request-id", "x-envoy-attempt-count"};
  for (int i = 0; i < message.headers_size(); ++i) {
    if (Changing.contains(http::toLower(message.headers(i)))) {
      errors.add(indexPath("policy.fingerprint.headers", static_cast<size_t>(i)),
                 fmt::format("{} changes between retries; use a header that stays the same",
                             quoteForError(message.headers(i))));
    }
  }
}

// Envoy keeps the host separately from the headers, so these names would find nothing.
void refuseHost(const v1::Fingerprint& message, FieldErrors& errors) {
  for (int i = 0; i < message.headers_size(); ++i) {
    if (http::isHostHeader(http::toLower(message.headers(i)))) {
      errors.add(indexPath("policy.fingerprint.headers", static_cast<size_t>(i)),
                 fmt::format("{} is not compared as a header; see policy.fingerprint.authority",
                             quoteForError(message.headers(i))));
    }
  }
}

// In mode NONE nothing is compared, so fields that say how to compare are mistakes.
void refuseInModeNone(const v1::Fingerprint& message, FieldErrors& errors) {
  const auto refuse = [&errors](std::string_view field, bool given) {
    if (given) {
      errors.add(joinPath("policy.fingerprint", field), "not allowed in mode NONE");
    }
  };
  refuse("headers", message.headers_size() > 0);
  refuse("principal", message.has_principal());
  refuse("authority", message.has_authority());
  refuse("query", message.has_query());
}

}  // namespace

void readFingerprint(const v1::Fingerprint& message, protocol::Policy& policy,
                     FieldErrors& errors) {
  fingerprint::FingerprintRules& rules = policy.fingerprint;
  rules.mode = static_cast<fingerprint::FingerprintMode>(message.mode());
  rules.headers =
      checkHeaderNames("policy.fingerprint.headers",
                       {message.headers().begin(), message.headers().end()}, MaxHeaders, errors);
  refuseChangingHeaders(message, errors);
  refuseHost(message, errors);
  readPointers("policy.fingerprint.pointers", message.pointers(), rules.pointers, errors);
  readPointers("policy.fingerprint.exclude_pointers", message.exclude_pointers(),
               rules.exclude_pointers, errors);
  rules.authority = !message.has_authority() || message.authority();
  rules.query = static_cast<fingerprint::QueryOrder>(message.query());
  rules.principal = message.has_principal();
  if (message.has_principal()) {
    policy.principal = checkSource("policy.fingerprint.principal", message.principal(), errors);
  }
  if (rules.mode == fingerprint::FingerprintMode::Selected && message.pointers_size() == 0) {
    errors.add("policy.fingerprint.pointers",
               "required in mode SELECTED; list at least one pointer");
  }
  if (rules.mode != fingerprint::FingerprintMode::Selected && message.pointers_size() > 0) {
    errors.add("policy.fingerprint.pointers", "requires mode SELECTED");
  }
  if (rules.mode != fingerprint::FingerprintMode::Canonical &&
      message.exclude_pointers_size() > 0) {
    errors.add("policy.fingerprint.exclude_pointers", "requires mode CANONICAL");
  }
  if (rules.mode == fingerprint::FingerprintMode::None) {
    refuseInModeNone(message, errors);
  }
}

}  // namespace idempotency::config
