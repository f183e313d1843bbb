#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace idempotency {

// How deeply arrays and objects may be nested in a JSON body that is read. A deeper body is
// compared by its bytes. It also bounds the recursion of the reader.
inline constexpr size_t MaxJsonDepth = 128;

// An RFC 6901 JSON Pointer in its string form (`/items/0/price`; `` is the whole document). The
// fragment form (`#/items`) is refused.
class JsonPointer {
public:
  // Fails if the text is no JSON Pointer, is not UTF-8 or reaches deeper than MaxJsonDepth.
  static absl::StatusOr<JsonPointer> parse(std::string_view text);

  const std::string& text() const { return text_; }
  const std::vector<std::string>& tokens() const { return tokens_; }  // `~0` and `~1` decoded.

  bool operator==(const JsonPointer&) const = default;

private:
  JsonPointer() = default;

  std::string text_;
  std::vector<std::string> tokens_;
};

}  // namespace idempotency
