#include "source/protocol/headers.h"

#include <algorithm>
#include <array>
#include <vector>

#include "source/protocol/header_names.h"

namespace idempotency {
namespace {

constexpr std::string_view EnvoyPrefix = "x-envoy-";

// Sorted, for the search.
constexpr std::array<std::string_view, 18> NeverStored = {
    "authentication-info",        // Authentication.
    "authorization",              // Authentication.
    "connection",                 // RFC 9110 §7.6.1.
    "content-length",             // Computed anew.
    "dpop-nonce",                 // Authentication.
    "http2-settings",             // Connection.
    "keep-alive",                 // Connection.
    "proxy-authenticate",         // Authentication.
    "proxy-authentication-info",  // Authentication.
    "proxy-authorization",        // Authentication.
    "proxy-connection",           // Connection.
    "server",                     // Envoy writes its own.
    "set-cookie",                 // For one client and one moment.
    "set-cookie2",                // The same, in old words.
    "te",                         // Connection.
    "transfer-encoding",          // Connection.
    "upgrade",                    // Connection.
    "www-authenticate",           // Authentication.
};
static_assert(std::is_sorted(NeverStored.begin(), NeverStored.end()));

constexpr std::array OwnResponseHeaders = {ReplayedHeader, ExpiresHeader, StoredHeader,
                                           EnforcedHeader};

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The elements of a comma-separated list, in lower case.
std::vector<std::string> splitList(std::string_view value) {
  std::vector<std::string> elements;
  while (!value.empty()) {
    const std::string_view element = value.substr(0, value.find(','));
    if (const std::string_view name = trim(element); !name.empty()) {
      elements.push_back(toLower(name));
    }
    value.remove_prefix(std::min(element.size() + 1, value.size()));
  }
  return elements;
}

// The names that `connection` makes hop-by-hop in this message, sorted.
std::vector<std::string> connectionNames(std::span<const FieldView> fields) {
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

bool isNeverStored(std::string_view lower_name) {
  return lower_name.starts_with(':') || lower_name.starts_with(EnvoyPrefix) ||
         isOwnHeader(lower_name) ||
         std::binary_search(NeverStored.begin(), NeverStored.end(), lower_name);
}

bool isSafeField(std::string_view name, std::string_view value) {
  const bool upper =
      std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  return isToken(name) && !upper &&
         value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

std::optional<FieldList> fieldsToStore(const Policy& policy, std::span<const FieldView> fields) {
  const std::vector<std::string> connection = connectionNames(fields);
  FieldList stored;
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

void exposeOwnHeaders(FieldList& headers) {
  const auto find = [&](std::string_view name) {
    return std::find_if(headers.begin(), headers.end(),
                        [&](const auto& field) { return field.first == name; });
  };
  if (find(AllowOriginHeader) == headers.end()) {
    return;
  }
  const auto expose = find(ExposeHeadersHeader);
  if (expose == headers.end()) {
    headers.emplace_back(ExposeHeadersHeader, *exposedWithOwnHeaders(""));
  } else if (auto extended = exposedWithOwnHeaders(expose->second)) {
    expose->second = *std::move(extended);
  }
}

}  // namespace idempotency
