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
  std::string name;     // A name, an address or a socket's folder; empty: libpq's default.
  std::string port;     // Empty: libpq's default.
  std::string address;  // `hostaddr`: no look-up is needed.
  bool operator==(const Host&) const = default;
};

// A connection string taken apart. libpq looks names up in a way that blocks, and leaves time
// limits to its caller: so this process looks names up itself and tries the hosts one by one.
struct Conninfo {
  std::vector<Host> hosts;  // Never empty.
  std::optional<std::chrono::seconds> connect_timeout;
  // All else, with our defaults where it says nothing.
  std::map<std::string, std::string> options;
};

// Words or URI. `longest_wait` bounds how long the kernel keeps sending to a dead peer.
[[nodiscard]] absl::StatusOr<Conninfo> parseConninfo(const std::string& text,
                                                     std::chrono::milliseconds longest_wait);

// Whether a host's name must be looked up.
[[nodiscard]] bool needsLookUp(const Host& host);

}  // namespace idempotency::postgres
