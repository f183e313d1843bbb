#include "source/cli/printable.h"

#include <cstdint>
#include <fmt/format.h>

#include "source/fingerprint/utf8.h"

namespace idempotency::cli {
namespace {

// The size of the character that starts at `at`, if it can be shown as it is; else 0.
size_t printableSize(const std::string& text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) {
    return byte >= 0x20 && byte != 0x7f ? 1 : 0;
  }
  const size_t size = fingerprint::utf8Length(text.data() + at);
  // U+0080 to U+009F are control characters, too.
  const bool control = byte == 0xc2 && static_cast<uint8_t>(text[at + 1]) < 0xa0;
  return control ? 0 : size;
}

}  // namespace

bool isPrintable(std::string_view view) {
  const std::string text(view);  // Its final zero byte guards utf8Length().
  size_t at = 0;
  while (at < text.size()) {
    const size_t size = printableSize(text, at);
    if (size == 0) {
      return false;
    }
    at += size;
  }
  return true;
}

std::string escaped(std::string_view view) {
  const std::string text(view);
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    const size_t size = printableSize(text, at);
    if (c == '\\') {
      result += "\\\\";
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\r') {
      result += "\\r";
    } else if (c == '\t') {
      result += "\\t";
    } else if (size == 0) {
      result += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      result.append(text, at, size);
    }
    at += size == 0 ? 1 : size;
  }
  return result;
}

std::string printable(std::string_view text) {
  return isPrintable(text) ? std::string(text) : escaped(text);
}

}  // namespace idempotency::cli
