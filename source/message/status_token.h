#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency::message {

// The names of runs in the URLs of their status resource. A name contains the operation and the
// key, encrypted, because URLs appear in logs. It opens only for the tenant that it was made for,
// and it is the same each time, on every Envoy that has the same secret (AES-256-SIV, RFC 5297).
//
// Immutable. Any thread.
class StatusTokens {
public:
  // From any secret of at least MinSecretBytes.
  static constexpr size_t MinSecretBytes = 16;
  static std::optional<StatusTokens> create(std::string_view secret);

  // Lower-case hexadecimal digits. Empty if OpenSSL fails.
  std::string seal(const protocol::Identity& identity) const;
  // None: it was not made with this secret, or not for this tenant.
  std::optional<protocol::Identity> open(std::string_view token, const std::string& tenant) const;

private:
  StatusTokens() = default;
  std::array<uint8_t, 64> key_{};
};

}  // namespace idempotency::message
