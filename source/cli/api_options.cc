#include "source/cli/api_options.h"

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

#include "source/cli/header_file.h"
#include "source/cli/input_file.h"
#include "source/cli/printable.h"
#include "source/operator_client/base_url.h"

namespace idempotency::cli {
namespace {

constexpr size_t LongestPem = size_t{4} << 20;

std::string text(const Arguments& arguments, std::string_view name) {
  return std::string(arguments.value(name).value_or(""));
}

absl::Status refuseOtherStores(const Arguments& arguments) {
  for (const std::string_view name : {"conninfo", "password-file", "sqlite"}) {
    if (arguments.has(name)) {
      return absl::InvalidArgumentError(fmt::format("--url cannot be combined with --{}", name));
    }
  }
  return absl::OkStatus();
}

// libcurl reads the file again; here it says what is wrong with it.
absl::Status checkPem(const Arguments& arguments, std::string_view name, bool is_tls) {
  const auto file = arguments.value(name);
  if (!file.has_value()) {
    return absl::OkStatus();
  }
  if (!is_tls) {
    return absl::InvalidArgumentError(fmt::format("--{} requires a --url with https", name));
  }
  if (*file == "-" || file->empty()) {
    return absl::InvalidArgumentError(fmt::format("--{} must be a file", name));
  }
  return readInputFile(*file, LongestPem).status();
}

absl::Status checkFiles(const Arguments& arguments, bool is_tls) {
  if (arguments.has("cert-key") && !arguments.has("cert")) {
    return absl::InvalidArgumentError("--cert-key requires --cert");
  }
  if (arguments.value("unix-socket") == "") {
    return absl::InvalidArgumentError("--unix-socket must be a file");
  }
  for (const std::string_view name : {"ca-file", "cert", "cert-key"}) {
    if (absl::Status status = checkPem(arguments, name, is_tls); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<operator_client::ApiAccess> readApiAccess(const Arguments& arguments,
                                                         std::chrono::milliseconds timeout) {
  if (const absl::Status status = refuseOtherStores(arguments); !status.ok()) {
    return status;
  }
  operator_client::ApiAccess access;
  access.url = text(arguments, "url");
  const auto base = operator_client::parseBaseUrl(access.url);
  if (!base.ok()) {
    return base.status();
  }
  if (const absl::Status status = checkFiles(arguments, base->is_tls); !status.ok()) {
    return status;
  }
  access.unix_socket = text(arguments, "unix-socket");
  access.ca_file = text(arguments, "ca-file");
  access.certificate = text(arguments, "cert");
  access.certificate_key = text(arguments, "cert-key");
  access.timeout = timeout;
  if (const auto file = arguments.value("header-file"); file.has_value()) {
    auto headers = readHeaderFile(*file);
    if (!headers.ok()) {
      return headers.status();
    }
    access.headers = *std::move(headers);
  }
  return access;
}

absl::Status refuseApiOptions(const Arguments& arguments) {
  for (const Option& option : ApiOptions) {
    if (arguments.has(option.name)) {
      return absl::InvalidArgumentError(fmt::format("--{} requires --url", option.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace idempotency::cli
