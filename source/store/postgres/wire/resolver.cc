#include "source/store/postgres/wire/resolver.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <netdb.h>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"

namespace idempotency::postgres {
namespace {

struct AddressesDelete {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// Appends the host once for each of its addresses. The name stays: certificates are checked by it.
absl::Status lookUp(const Host& host, std::vector<Host>& out) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.name.c_str(), nullptr, &hints, &list);
  const std::unique_ptr<addrinfo, AddressesDelete> owned(list);
  if (error != 0) {
    return absl::UnavailableError(
        fmt::format("cannot look up host {}: {}", host.name, gai_strerror(error)));
  }
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      out.push_back({host.name, host.port, text});
    }
  }
  return absl::OkStatus();
}

// Hosts that cannot be looked up are left out; an error only if none is left.
absl::StatusOr<std::vector<Host>> lookUpAll(const std::vector<Host>& hosts) {
  std::vector<Host> found;
  absl::Status failure = absl::UnavailableError("no host has an address");
  for (const Host& host : hosts) {
    if (!needsLookUp(host)) {
      found.push_back(host);
    } else if (absl::Status status = lookUp(host, found); !status.ok()) {
      failure = std::move(status);
    }
  }
  if (found.empty()) {
    return failure;
  }
  return found;
}

absl::StatusOr<std::string> readPassword(const std::string& path) {
  if (path.empty()) {
    return std::string();
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file.good() && !file.eof()) {
    return absl::UnavailableError(
        fmt::format("cannot read password_file: {}", std::strerror(errno)));
  }
  std::string password = text.str();
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) {
    password.pop_back();
  }
  if (password.empty()) {
    return absl::UnavailableError("password_file is empty");
  }
  return password;
}

}  // namespace

Resolution resolveNow(const std::vector<Host>& hosts, const std::string& password_file) {
  return {lookUpAll(hosts), readPassword(password_file)};
}

void resolve(std::vector<Host> hosts, std::string password_file,
             std::function<void(Resolution)> done) {
  try {
    std::thread([hosts = std::move(hosts), password_file = std::move(password_file), done] {
      try {
        done(resolveNow(hosts, password_file));
      } catch (const std::exception& error) {
        const absl::Status status = absl::InternalError(error.what());
        done({status, status});
      }
    }).detach();
  } catch (const std::system_error& error) {
    const absl::Status status = absl::ResourceExhaustedError("cannot start a thread");
    done({status, status});
  }
}

}  // namespace idempotency::postgres
