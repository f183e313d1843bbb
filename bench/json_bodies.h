#pragma once

#include <cstddef>
#include <string>

namespace idempotency {

// Orders as API clients send them: nested objects whose members are in the order of writing, not of
// the alphabet, with texts, amounts, flags, dates and a few escapes.

// Without spaces, as close to `size` as whole items allow, not more; at least one small item.
std::string orderBody(size_t size);

// The same with line breaks and indentation.
std::string prettyOrderBody(size_t size);

}  // namespace idempotency
