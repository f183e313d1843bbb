#pragma once

#include <string>
#include <string_view>

namespace idempotency::operator_client {

// What a server wrote, for a message at a terminal: one line of limited length, without control
// characters and without what is no UTF-8.
std::string serverText(std::string_view text);

}  // namespace idempotency::operator_client
