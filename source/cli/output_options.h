#pragma once

#include <array>

#include "source/cli/arguments.h"

namespace idempotency::cli {

inline constexpr std::array<Option, 1> OutputOptions = {{
    {"json", "", "print JSON in the shape of the operator API"},
}};

}  // namespace idempotency::cli
