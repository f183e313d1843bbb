#include "source/store/postgres/wire/conninfo.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

#include "source/store/postgres/wire/pq.h"

namespace idempotency::postgres {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(comma + 1);
  }
}

std::string take(std::map<std::string, std::string>& options, const std::string& name) {
  auto node = options.extract(name);
  return node.empty() ? std::string() : std::move(node.mapped());
}

std::map<std::string, std::string> collect(const PQconninfoOption* option) {
  std::map<std::string, std::string> options;
  for (; option != nullptr && option->keyword != nullptr; ++option) {
    if (option->val != nullptr && *option->val != '\0') {
      options[option->keyword] = option->val;
    }
  }
  return options;
}

// If the string has no host, the environment may have one (PGHOST, PGHOSTADDR).
void addHostsOfEnvironment(std::map<std::string, std::string>& options) {
  if (options.contains("host") || options.contains("hostaddr")) {
    return;
  }
  const PqOptions defaults(PQconndefaults());
  const auto environment = collect(defaults.get());
  for (const char* const name : {"host", "hostaddr", "port"}) {
    if (const auto found = environment.find(name); found != environment.end()) {
      options.emplace(name, found->second);
    }
  }
}

absl::StatusOr<std::vector<Host>> readHosts(std::map<std::string, std::string>& options) {
  const std::vector<std::string> names = split(take(options, "host"));
  const std::vector<std::string> addresses = split(take(options, "hostaddr"));
  const std::vector<std::string> ports = split(take(options, "port"));
  const bool has_addresses = addresses.size() > 1 || !addresses.front().empty();
  const bool has_names = names.size() > 1 || !names.front().empty();
  if (has_names && has_addresses && names.size() != addresses.size()) {
    return absl::InvalidArgumentError(fmt::format("conninfo: {} host names, but {} hostaddr values",
                                                  names.size(), addresses.size()));
  }
  const size_t count = has_addresses ? addresses.size() : names.size();
  if (ports.size() != 1 && ports.size() != count) {
    return absl::InvalidArgumentError(
        fmt::format("conninfo: {} ports for {} hosts", ports.size(), count));
  }
  std::vector<Host> hosts;
  for (size_t i = 0; i < count; ++i) {
    hosts.push_back({has_names ? names[i] : "", ports.size() == 1 ? ports[0] : ports[i],
                     has_addresses ? addresses[i] : ""});
  }
  return hosts;
}

bool isSocket(const std::string& name) {
  return name.empty() || name.front() == '/' || name.front() == '@';
}

bool isThisMachine(const Host& host) {
  const std::string& address = host.address.empty() ? host.name : host.address;
  in_addr v4;
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == 127;
  }
  in6_addr v6;
  if (inet_pton(AF_INET6, address.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return isSocket(address) || address == "localhost";
}

}  // namespace

bool needsLookUp(const Host& host) {
  if (!host.address.empty() || isSocket(host.name)) {
    return false;
  }
  in6_addr ignored;
  return inet_pton(AF_INET, host.name.c_str(), &ignored) != 1 &&
         inet_pton(AF_INET6, host.name.c_str(), &ignored) != 1;
}

absl::StatusOr<Conninfo> parseConninfo(const std::string& text,
                                       std::chrono::milliseconds longest_wait) {
  char* error = nullptr;
  const PqOptions parsed(PQconninfoParse(text.c_str(), &error));
  if (parsed == nullptr) {
    // libpq's message may quote the string, and with it a secret.
    PQfreemem(error);
    return absl::InvalidArgumentError("conninfo is not a valid connection string");
  }
  Conninfo conninfo;
  conninfo.options = collect(parsed.get());
  if (conninfo.options.contains("service")) {
    return absl::InvalidArgumentError(
        "conninfo: `service` is not supported, because it may contain host names, whose lookup "
        "would block; set `host`");
  }
  addHostsOfEnvironment(conninfo.options);
  auto hosts = readHosts(conninfo.options);
  if (!hosts.ok()) {
    return hosts.status();
  }
  conninfo.hosts = *std::move(hosts);
  if (const std::string limit = take(conninfo.options, "connect_timeout"); !limit.empty()) {
    int seconds = 0;
    std::from_chars(limit.data(), limit.data() + limit.size(), seconds);
    if (seconds > 0) {
      conninfo.connect_timeout = std::chrono::seconds(seconds);
    }
  }
  const std::pair<const char*, std::string> defaults[] = {
      {"fallback_application_name", "envoy-idempotency"},
      // A standby cannot claim anything.
      {"target_session_attrs", "read-write"},
      // Dead peers: unanswered data, and idle connections.
      {"tcp_user_timeout", std::to_string(std::max<int64_t>(longest_wait.count(), 1000) * 2)},
      {"keepalives_idle", "10"},
      {"keepalives_interval", "5"},
      {"keepalives_count", "3"},
      // Looking for Kerberos tickets may block.
      {"gssencmode", "disable"},
      {"client_encoding", "UTF8"},
  };
  for (const auto& [name, value] : defaults) {
    conninfo.options.emplace(name, value);
  }
  return conninfo;
}

bool mayTravelInClear(const std::string& text) {
  const absl::StatusOr<Conninfo> conninfo = parseConninfo(text, std::chrono::milliseconds(0));
  if (!conninfo.ok()) {
    return false;
  }
  const auto said = conninfo->options.find("sslmode");
  const char* const environment = std::getenv("PGSSLMODE");
  const std::string mode = said != conninfo->options.end() ? said->second
                           : environment != nullptr        ? environment
                                                           : "";
  if (mode == "require" || mode == "verify-ca" || mode == "verify-full") {
    return false;
  }
  return !std::all_of(conninfo->hosts.begin(), conninfo->hosts.end(), isThisMachine);
}

}  // namespace idempotency::postgres
