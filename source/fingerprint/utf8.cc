#include "source/fingerprint/utf8.h"

#include <string>

namespace idempotency::fingerprint {

bool isUtf8(std::string_view text) {
  const std::string guarded(text);  // Its terminating zero guards utf8Length().
  for (size_t i = 0; i < text.size();) {
    const size_t length = static_cast<uint8_t>(guarded[i]) < 0x80 ? 1 : utf8Length(&guarded[i]);
    if (length == 0) {
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace idempotency::fingerprint
