#include "source/protocol/envoy_details.h"

namespace idempotency::protocol {

EnvoyDetails splitDetails(std::string_view text) {
  const size_t open = text.find_first_of("{[(|");
  EnvoyDetails details{text.substr(0, open), {}};
  if (open == std::string_view::npos || text[open] != '{') {
    return details;
  }
  const std::string_view rest = text.substr(open + 1);
  const size_t end = rest.find_first_of("|}");
  if (end != std::string_view::npos) {
    details.reason = rest.substr(0, end);
  }
  return details;
}

}  // namespace idempotency::protocol
