#include "source/store/postgres/wire/connect.h"

#include <cstdlib>
#include <fmt/format.h>

#include "absl/status/status.h"

namespace idempotency::postgres {
namespace {

// Checked before connecting, because libpq's message may quote the string, and with it a secret.
bool isReadable(const std::string& conninfo) {
  if (conninfo.find('=') == std::string::npos && conninfo.find("://") == std::string::npos) {
    return true;
  }
  char* error = nullptr;
  const PqOptions parsed(PQconninfoParse(conninfo.c_str(), &error));
  PQfreemem(error);
  return parsed != nullptr;
}

}  // namespace

absl::StatusOr<PqConnection> connectNow(const ConnectOptions& options) {
  if (!isReadable(options.conninfo)) {
    return absl::InvalidArgumentError("conninfo is not a valid connection string");
  }
  const char* const said = std::getenv("PGCONNECT_TIMEOUT");
  const std::string limit = said != nullptr ? said : std::to_string(options.timeout.count());
  std::vector<const char*> keywords = {"connect_timeout"};
  std::vector<const char*> values = {limit.c_str()};
  for (const auto& [keyword, value] : options.defaults) {
    keywords.push_back(keyword);
    values.push_back(value.c_str());
  }
  // The conninfo overrides the settings before it.
  keywords.push_back("dbname");
  values.push_back(options.conninfo.c_str());
  if (options.password.has_value()) {
    keywords.push_back("password");
    values.push_back(options.password->c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  PqConnection connection(PQconnectdbParams(keywords.data(), values.data(), 1));
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    return absl::UnavailableError(
        fmt::format("cannot connect: {}", describeError(connection.get())));
  }
  return connection;
}

}  // namespace idempotency::postgres
