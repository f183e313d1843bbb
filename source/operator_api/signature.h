#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/protocol/settings.h"

// Signatures of webhooks: HMAC-SHA256 over a timestamp and the body.
namespace idempotency::operator_api {

// The values of the headers that a format uses. Empty: not sent.
struct SignatureHeaders {
  std::string id;  // StandardWebhooks only.
  std::string timestamp;
  std::string signature;
};
// In lower case. Empty: the format has no such header.
struct SignatureHeaderNames {
  std::string_view id;
  std::string_view timestamp;
  std::string_view signature;
};
SignatureHeaderNames signatureHeaderNames(protocol::WebhookFormat format);

struct WebhookKey {
  std::string id;
  std::string secret;
  bool operator==(const WebhookKey&) const = default;
};

enum class SignatureVerdict : uint8_t {
  Invalid,  // No key gives one of the signatures.
  Missing,  // There is no signature, or it cannot be read.
  Late,     // A key gives it, but its timestamp is too far from now.
  Valid,
};
struct SignatureResult {
  SignatureVerdict verdict = SignatureVerdict::Invalid;
  std::string key_id;  // Valid: of the key.
};

// Seconds since 1970.
struct SignatureWindow {
  std::chrono::seconds now;
  std::chrono::milliseconds tolerance;  // Into the past and into the future.
};

// Compares in a time that does not depend on the signature. A timestamp is judged only after its
// signature, so that an answer tells a forger nothing.
[[nodiscard]] SignatureResult verifySignature(protocol::WebhookFormat format,
                                              const SignatureHeaders& headers,
                                              std::string_view body,
                                              std::span<const WebhookKey> keys,
                                              const SignatureWindow& window);

}  // namespace idempotency::operator_api
