#include "source/runtime/log_text.h"

#include <fmt/format.h>

namespace idempotency::runtime {

std::string quoted(std::string_view text) {
  std::string line = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte >= 0x7f || c == '"' || c == '\\') {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line + '"';
}

}  // namespace idempotency::runtime
