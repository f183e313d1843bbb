#pragma once

#include <string_view>

namespace idempotency::protocol {

// Envoy's response code details have one of these forms: name, name{reason},
// name{reason|transport detail}, name[policy], name(reason). Spaces are underscores. Views into the
// text.
struct EnvoyDetails {
  std::string_view name;
  std::string_view reason;  // Of the braces only.
};

[[nodiscard]] EnvoyDetails splitDetails(std::string_view text);

}  // namespace idempotency::protocol
