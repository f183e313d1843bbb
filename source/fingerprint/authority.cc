#include "source/fingerprint/authority.h"

#include <algorithm>
#include <cstddef>

namespace idempotency::fingerprint {
namespace {

bool isUpper(char c) {
  return c >= 'A' && c <= 'Z';
}

bool isDefaultPort(std::string_view port, std::string_view scheme) {
  return port.empty() || (scheme == "http" && port == "80") || (scheme == "https" && port == "443");
}

std::string_view withoutDefaultPort(std::string_view authority, std::string_view scheme) {
  const size_t colon = authority.rfind(':');
  if (colon == std::string_view::npos) {
    return authority;
  }
  const std::string_view host = authority.substr(0, colon);
  // A colon inside an IPv6 address begins no port.
  if (host.find(':') != std::string_view::npos && !host.ends_with(']')) {
    return authority;
  }
  return isDefaultPort(authority.substr(colon + 1), scheme) ? host : authority;
}

}  // namespace

std::string_view normalAuthority(std::string_view authority, std::string_view scheme,
                                 std::string& scratch) {
  const std::string_view text = withoutDefaultPort(authority, scheme);
  // The part before an `@` is no host: its case may mean something.
  const size_t host = text.rfind('@') + 1;
  if (std::none_of(text.begin() + static_cast<ptrdiff_t>(host), text.end(), isUpper)) {
    return text;
  }
  scratch = text;
  for (size_t i = host; i < scratch.size(); ++i) {
    if (isUpper(scratch[i])) {
      scratch[i] = static_cast<char>(scratch[i] - 'A' + 'a');
    }
  }
  return scratch;
}

}  // namespace idempotency::fingerprint
