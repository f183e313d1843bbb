#pragma once

#include <string>
#include <string_view>

namespace idempotency::runtime {

// Text from outside for a line of the log, in quotes. It can neither end the line nor look like the
// rest of it: control characters, quotes, backslashes, and every byte beyond ASCII are written as
// \x and two digits.
std::string quoted(std::string_view text);

}  // namespace idempotency::runtime
