#include "source/operator_api/signature.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "source/fingerprint/hex.h"
#include "source/operator_api/base64.h"
#include "source/operator_api/text.h"

namespace idempotency::operator_api {
namespace {

using protocol::WebhookFormat;

// More only cost time.
constexpr size_t MaxSignatures = 8;
constexpr std::string_view SecretPrefix = "whsec_";

// What the headers say.
struct Claim {
  std::string timestamp;
  std::string prefix;  // Of the signed text, before the body.
  std::vector<std::string> signatures;
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (parts.size() < 2 * MaxSignatures) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) {
      break;
    }
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const size_t end = text.find_last_not_of(' ');
  return end == std::string_view::npos ? std::string_view() : text.substr(begin, end + 1 - begin);
}

Claim readGeneric(const SignatureHeaders& headers) {
  Claim claim{headers.timestamp, headers.timestamp + ".", {}};
  for (const std::string_view part : split(headers.signature, ',')) {
    claim.signatures.emplace_back(trimmed(part));
  }
  return claim;
}

// t=1492774577,v1=5257…,v1=…,v0=…
Claim readStripe(const SignatureHeaders& headers) {
  Claim claim;
  for (std::string_view part : split(headers.signature, ',')) {
    part = trimmed(part);
    if (part.starts_with("t=")) {
      claim.timestamp = part.substr(2);
    } else if (part.starts_with("v1=")) {
      claim.signatures.emplace_back(part.substr(3));
    }
  }
  claim.prefix = claim.timestamp + ".";
  return claim;
}

// v1,K5oZ… v1,…
Claim readStandard(const SignatureHeaders& headers) {
  Claim claim{headers.timestamp, headers.id + "." + headers.timestamp + ".", {}};
  for (const std::string_view part : split(headers.signature, ' ')) {
    if (part.starts_with("v1,")) {
      claim.signatures.emplace_back(part.substr(3));
    }
  }
  return headers.id.empty() ? Claim() : claim;
}

Claim readClaim(WebhookFormat format, const SignatureHeaders& headers) {
  switch (format) {
    case WebhookFormat::Generic:
      return readGeneric(headers);
    case WebhookFormat::Stripe:
      return readStripe(headers);
    case WebhookFormat::StandardWebhooks:
      return readStandard(headers);
  }
  return {};
}

// The bytes that are the key. Standard Webhooks hands secrets out in base64.
std::string keyBytes(WebhookFormat format, const std::string& secret) {
  if (format != WebhookFormat::StandardWebhooks || !secret.starts_with(SecretPrefix)) {
    return secret;
  }
  return fromBase64(std::string_view(secret).substr(SecretPrefix.size())).value_or(secret);
}

// As the format writes it. Empty: OpenSSL failed.
std::string sign(WebhookFormat format, const std::string& secret, const std::string& text) {
  const std::string key = keyBytes(format, secret);
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const uint8_t*>(text.data()), text.size(), digest.data(),
           &size) == nullptr) {
    return {};
  }
  const auto bytes = std::span(digest).first(size);
  return format == WebhookFormat::StandardWebhooks
             ? toBase64({reinterpret_cast<const char*>(bytes.data()), bytes.size()})
             : fingerprint::toHex(bytes);
}

bool equalInConstantTime(const std::string& one, const std::string& other) {
  return one.size() == other.size() && !one.empty() &&
         CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

bool isInWindow(int64_t timestamp, const SignatureWindow& window) {
  constexpr int64_t Latest = int64_t{1} << 40;  // Far above any date, and safe to subtract.
  if (timestamp < 0 || timestamp > Latest) {
    return false;
  }
  return std::chrono::abs(window.now - std::chrono::seconds(timestamp)) <= window.tolerance;
}

}  // namespace

SignatureHeaderNames signatureHeaderNames(WebhookFormat format) {
  switch (format) {
    case WebhookFormat::Generic:
      return {"", "idempotency-webhook-timestamp", "idempotency-webhook-signature"};
    case WebhookFormat::Stripe:
      return {"", "", "stripe-signature"};
    case WebhookFormat::StandardWebhooks:
      return {"webhook-id", "webhook-timestamp", "webhook-signature"};
  }
  return {};
}

SignatureResult verifySignature(WebhookFormat format, const SignatureHeaders& headers,
                                std::string_view body, std::span<const WebhookKey> keys,
                                const SignatureWindow& window) {
  const Claim claim = readClaim(format, headers);
  const auto timestamp = parseNumber(claim.timestamp);
  if (!timestamp.has_value() || claim.signatures.empty() || claim.signatures.front().empty()) {
    return {SignatureVerdict::Missing, ""};
  }
  const std::string text = claim.prefix + std::string(body);
  for (const WebhookKey& key : keys) {
    const std::string expected = sign(format, key.secret, text);
    for (const std::string& signature : claim.signatures) {
      if (equalInConstantTime(expected, signature)) {
        return isInWindow(*timestamp, window) ? SignatureResult{SignatureVerdict::Valid, key.id}
                                              : SignatureResult{SignatureVerdict::Late, ""};
      }
    }
  }
  return {SignatureVerdict::Invalid, ""};
}

}  // namespace idempotency::operator_api
