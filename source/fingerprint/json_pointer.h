#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace idempotency::fingerprint {

// Maximum nesting depth of arrays and objects in a JSON body. A deeper body is compared by its
// bytes. This also bounds the recursion of the reader.
inline constexpr size_t MaxJsonDepth = 128;

// An RFC 6901 JSON Pointer in its string form (`/items/0/price`; `` is the whole document). The
// fragment form (`#/items`) is refused.
class JsonPointer {
public:
  // Fails if the text is not a JSON Pointer, is not UTF-8, or is deeper than MaxJsonDepth.
  static absl::StatusOr<JsonPointer> parse(std::string_view text);

  const std::string& text() const { return text_; }
  const std::vector<std::string>& tokens() const { return tokens_; }  // `~0` and `~1` decoded.

  bool operator==(const JsonPointer&) const = default;

private:
  JsonPointer() = default;

  std::string text_;
  std::vector<std::string> tokens_;
};

}  // namespace idempotency::fingerprint
