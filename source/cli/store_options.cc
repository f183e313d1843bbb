#include "source/cli/store_options.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "source/cli/password_file.h"
#include "source/cli/printable.h"
#include "source/operator_client/api_operator_store.h"
#include "source/store/open/open_operator_store.h"

namespace idempotency::cli {
namespace {

constexpr size_t LongestTimeout = 3600;

absl::StatusOr<store::OperatorAccess> readAccess(const Arguments& arguments,
                                                 std::chrono::milliseconds limit) {
  if (const absl::Status status = refuseApiOptions(arguments); !status.ok()) {
    return status;
  }
  if (const auto path = arguments.value("sqlite"); path.has_value()) {
    if (arguments.has("conninfo") || arguments.has("password-file")) {
      return absl::InvalidArgumentError(
          "--sqlite cannot be combined with --conninfo or --password-file");
    }
    return store::SqliteAccess{.path = std::string(*path), .timeout = limit};
  }
  store::PostgresAccess access = {
      .conninfo = std::string(arguments.value("conninfo").value_or("")),
      .password = std::nullopt,
      .timeout = limit,
  };
  if (const auto file = arguments.value("password-file"); file.has_value()) {
    auto password = readPasswordFile(*file);
    if (!password.ok()) {
      return password.status();
    }
    access.password = *std::move(password);
  }
  return access;
}

absl::StatusOr<std::unique_ptr<store::OperatorStore>> openApi(const Arguments& arguments,
                                                              std::chrono::milliseconds limit) {
  const auto access = readApiAccess(arguments, limit);
  if (!access.ok()) {
    return access.status();
  }
  return fromStore(operator_client::ApiOperatorStore::open(*access));
}

}  // namespace

absl::StatusOr<std::unique_ptr<store::OperatorStore>> openStore(const Arguments& arguments) {
  const auto timeout = arguments.number("timeout", 1, LongestTimeout, 10);
  if (!timeout.ok()) {
    return timeout.status();
  }
  const auto limit = std::chrono::seconds(*timeout);
  if (arguments.has("url")) {
    return openApi(arguments, limit);
  }
  const auto access = readAccess(arguments, limit);
  if (!access.ok()) {
    return access.status();
  }
  return fromStore(store::openOperatorStore(*access));
}

std::string storeName(const Arguments& arguments) {
  if (const auto url = arguments.value("url"); url.has_value()) {
    return printable(*url);
  }
  const auto path = arguments.value("sqlite");
  return path.has_value() ? printable(*path) : "PostgreSQL";
}

}  // namespace idempotency::cli
