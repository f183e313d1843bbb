#include "source/operator_client/server_text.h"

#include <cstddef>
#include <cstdint>

#include "source/operator_api/text.h"

namespace idempotency::operator_client {
namespace {

constexpr size_t LongestLine = 400;

bool isControl(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  // U+0080 to U+009F are control characters, too.
  return byte < 0x20 || byte == 0x7f ||
         (byte == 0xc2 && at + 1 < text.size() && static_cast<uint8_t>(text[at + 1]) < 0xa0);
}

}  // namespace

std::string serverText(std::string_view text) {
  const bool is_cut = text.size() > LongestLine;
  const std::string utf8 = operator_api::shownText(text.substr(0, LongestLine));
  std::string line;
  for (size_t at = 0; at < utf8.size(); ++at) {
    if (!isControl(utf8, at)) {
      line += utf8[at];
      continue;
    }
    at += static_cast<uint8_t>(utf8[at]) == 0xc2 ? 1 : 0;
    if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return is_cut ? line + "…" : line;
}

}  // namespace idempotency::operator_client
