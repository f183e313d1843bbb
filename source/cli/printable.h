#pragma once

#include <string>
#include <string_view>

namespace idempotency::cli {

// Whether a terminal shows the text as it is: UTF-8 without control characters.
bool isPrintable(std::string_view text);

// The text with backslashes, control characters and what is not UTF-8 written as in C: `\\`, `\n`,
// `\x00`.
std::string escaped(std::string_view text);

// For messages: the text as it is where isPrintable(), else escaped, so that no byte from outside
// reaches the terminal.
std::string printable(std::string_view text);

}  // namespace idempotency::cli
