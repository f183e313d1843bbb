#include "source/operator_client/base_url.h"

#include <algorithm>
#include <curl/curl.h>
#include <memory>
#include <optional>
#include <string_view>

#include <absl/status/status.h>

namespace idempotency::operator_client {
namespace {

constexpr std::string_view DefaultPrefix = "/idempotency";

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, FreeUrl>;

// None: the URL does not have it.
std::optional<std::string> part(CURLU* url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, 0) != CURLUE_OK || text == nullptr) {
    return std::nullopt;
  }
  std::string copy(text);
  curl_free(text);
  return copy;
}

bool isPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

absl::Status checkParts(CURLU* url, std::string_view scheme) {
  if (scheme != "http" && scheme != "https") {
    return absl::InvalidArgumentError("--url must begin with http:// or https://");
  }
  if (part(url, CURLUPART_USER).has_value() || part(url, CURLUPART_PASSWORD).has_value()) {
    return absl::InvalidArgumentError(
        "--url must not hold a user or a password: other users of this machine can see arguments. "
        "Use --header-file");
  }
  if (part(url, CURLUPART_QUERY).has_value() || part(url, CURLUPART_FRAGMENT).has_value()) {
    return absl::InvalidArgumentError(
        "--url must end with the prefix of the API, such as https://HOST:9443/idempotency, without "
        "? and #");
  }
  return absl::OkStatus();
}

// Without slashes at its end.
std::string prefixOf(CURLU* url) {
  std::string path = part(url, CURLUPART_PATH).value_or("");
  path.erase(path.find_last_not_of('/') + 1);
  return path.empty() ? std::string(DefaultPrefix) : path;
}

}  // namespace

absl::StatusOr<BaseUrl> parseBaseUrl(const std::string& text) {
  const Url url(curl_url());
  if (url == nullptr) {
    return absl::ResourceExhaustedError("out of memory");
  }
  if (!isPlain(text) || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    return absl::InvalidArgumentError(
        "--url is not a URL such as https://HOST:9443 or http://HOST:9090/idempotency");
  }
  const std::string scheme = part(url.get(), CURLUPART_SCHEME).value_or("");
  if (const absl::Status status = checkParts(url.get(), scheme); !status.ok()) {
    return status;
  }
  const std::string prefix = prefixOf(url.get());
  // The host's own root, so that nothing of the path is written in another way.
  if (curl_url_set(url.get(), CURLUPART_PATH, "/", 0) != CURLUE_OK) {
    return absl::ResourceExhaustedError("out of memory");
  }
  std::string root = part(url.get(), CURLUPART_URL).value_or("");
  root.erase(root.find_last_not_of('/') + 1);
  return BaseUrl{.text = root + prefix, .is_tls = scheme == "https"};
}

}  // namespace idempotency::operator_client
