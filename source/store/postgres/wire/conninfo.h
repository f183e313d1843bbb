#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace idempotency::postgres {

// One place where the database may be.
struct Host {
  std::string name;     // A name, an address or a socket directory; empty: libpq's default.
  std::string port;     // Empty: libpq's default.
  std::string address;  // `hostaddr`: no lookup is needed.
  bool operator==(const Host&) const = default;
};

// A parsed connection string. libpq's host lookup blocks, and its caller must enforce timeouts: so
// this process looks up names itself and tries the hosts one by one.
struct Conninfo {
  std::vector<Host> hosts;  // Never empty.
  std::optional<std::chrono::seconds> connect_timeout;
  // All other options, with our defaults for those that are missing.
  std::map<std::string, std::string> options;
};

// Keyword=value pairs or a URI. `longest_wait` limits how long the kernel keeps sending to a dead
// peer.
[[nodiscard]] absl::StatusOr<Conninfo> parseConninfo(const std::string& text,
                                                     std::chrono::milliseconds longest_wait);

// Whether keys and responses may be sent over a network in plain text: some host is not this
// machine, and sslmode does not require TLS. libpq's default does not require it.
[[nodiscard]] bool mayTravelInClear(const std::string& text);

// Whether the host name must be looked up.
[[nodiscard]] bool needsLookUp(const Host& host);

}  // namespace idempotency::postgres
