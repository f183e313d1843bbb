#include "source/fingerprint/json_escape.h"

#include <array>

namespace idempotency::fingerprint {
namespace {

constexpr std::array<std::string_view, 32> Controls = {
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
    "\\b",     "\\t",     "\\n",     "\\u000b", "\\f",     "\\r",     "\\u000e", "\\u000f",
    "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",
    "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
};

}  // namespace

std::string_view canonicalControl(unsigned char control) {
  return Controls[control];
}

std::string canonicalString(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < Controls.size()) {
      out += canonicalControl(static_cast<unsigned char>(c));
      continue;
    }
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

}  // namespace idempotency::fingerprint
