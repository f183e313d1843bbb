#pragma once

#include <string_view>

namespace idempotency {

// A file of the tree inside the program (see embed.bzl).
struct EmbeddedText {
  std::string_view name;  // Without folders.
  std::string_view text;
};

}  // namespace idempotency
