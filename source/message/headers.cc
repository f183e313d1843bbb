#include "source/message/headers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "source/http/header_names.h"

namespace idempotency::message {
namespace {

constexpr std::string_view EnvoyPrefix = "x-envoy-";

// Sorted, for the search.
constexpr std::array<std::string_view, 18> NeverStored = {
    "authentication-info",        // Authentication.
    "authorization",              // Authentication.
    "connection",                 // RFC 9110 §7.6.1.
    "content-length",             // Computed again.
    "dpop-nonce",                 // Authentication.
    "http2-settings",             // Connection.
    "keep-alive",                 // Connection.
    "proxy-authenticate",         // Authentication.
    "proxy-authentication-info",  // Authentication.
    "proxy-authorization",        // Authentication.
    "proxy-connection",           // Connection.
    "server",                     // Envoy writes its own.
    "set-cookie",                 // For one client and a short time.
    "set-cookie2",                // The obsolete form.
    "te",                         // Connection.
    "transfer-encoding",          // Connection.
    "upgrade",                    // Connection.
    "www-authenticate",           // Authentication.
};
static_assert(std::is_sorted(NeverStored.begin(), NeverStored.end()));

constexpr std::array OwnResponseHeaders = {http::ReplayedHeader, http::ExpiresHeader,
                                           http::StoredHeader, http::EnforcedHeader};

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The names that `connection` makes hop-by-hop in this message, sorted.
std::vector<std::string> connectionNames(std::span<const protocol::FieldView> fields) {
  std::vector<std::string> names;
  for (const auto& [name, value] : fields) {
    if (name == "connection") {
      const std::vector<std::string> elements = splitList(value);
      names.insert(names.end(), elements.begin(), elements.end());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool contains(const std::vector<std::string>& sorted, std::string_view name) {
  return std::binary_search(sorted.begin(), sorted.end(), name);
}

}  // namespace

std::vector<std::string> splitList(std::string_view value) {
  std::vector<std::string> elements;
  while (!value.empty()) {
    const std::string_view element = value.substr(0, value.find(','));
    if (const std::string_view name = trim(element); !name.empty()) {
      elements.push_back(http::toLower(name));
    }
    value.remove_prefix(std::min(element.size() + 1, value.size()));
  }
  return elements;
}

bool isNeverStored(std::string_view lower_name) {
  return lower_name.starts_with(':') || lower_name.starts_with(EnvoyPrefix) ||
         http::isOwnHeader(lower_name) ||
         std::binary_search(NeverStored.begin(), NeverStored.end(), lower_name);
}

bool isSafeField(std::string_view name, std::string_view value) {
  const bool upper =
      std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  return http::isToken(name) && !upper &&
         value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

std::optional<protocol::FieldList> fieldsToStore(const protocol::Policy& policy,
                                                 std::span<const protocol::FieldView> fields) {
  const std::vector<std::string> connection = connectionNames(fields);
  protocol::FieldList stored;
  for (const auto& [name, value] : fields) {
    if (isNeverStored(name) || contains(connection, name) ||
        contains(policy.unstored_headers, name)) {
      continue;
    }
    if (!isSafeField(name, value)) {
      return std::nullopt;
    }
    stored.emplace_back(name, value);
  }
  return stored;
}

std::optional<std::string> exposedWithOwnHeaders(std::string_view value) {
  const std::vector<std::string> present = splitList(value);
  const auto has = [&](std::string_view name) {
    return std::find(present.begin(), present.end(), name) != present.end();
  };
  std::string extended(value);
  for (const std::string_view name : OwnResponseHeaders) {
    if (!has("*") && !has(name)) {
      extended += extended.empty() ? "" : ", ";
      extended += name;
    }
  }
  return extended == value ? std::nullopt : std::optional(extended);
}

bool usesCors(const protocol::FieldList& headers) {
  return std::any_of(headers.begin(), headers.end(),
                     [](const auto& field) { return field.first == http::AllowOriginHeader; });
}

bool announcesMoreThan(std::string_view content_length, uint64_t bytes) {
  uint64_t length = 0;
  const auto [end, error] =
      std::from_chars(content_length.data(), content_length.data() + content_length.size(), length);
  return error == std::errc::result_out_of_range || (error == std::errc() && length > bytes);
}

void exposeOwnHeaders(protocol::FieldList& headers) {
  const auto expose = std::find_if(headers.begin(), headers.end(), [](const auto& field) {
    return field.first == http::ExposeHeadersHeader;
  });
  if (expose == headers.end()) {
    headers.emplace_back(http::ExposeHeadersHeader, *exposedWithOwnHeaders(""));
  } else if (auto extended = exposedWithOwnHeaders(expose->second)) {
    expose->second = *std::move(extended);
  }
}

}  // namespace idempotency::message
