#pragma once

#include <string>
#include <string_view>

namespace idempotency::fingerprint {

// How RFC 8785 writes a character below U+0020 in a string: `\n`, `\u001f`. The view stays valid.
std::string_view canonicalControl(unsigned char control);

// UTF-8 text as RFC 8785 writes it between the quotes of a string.
std::string canonicalString(std::string_view text);

}  // namespace idempotency::fingerprint
