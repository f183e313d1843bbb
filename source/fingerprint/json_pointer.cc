#include "source/fingerprint/json_pointer.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include <absl/status/status.h>

#include "source/fingerprint/utf8.h"

namespace idempotency::fingerprint {
namespace {

absl::Status refuse(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("JSON Pointer '{}': {}", text, why));
}

// RFC 6901, section 3: `~0` stands for `~`, `~1` for `/`, no other `~` is allowed.
std::optional<std::string> unescape(std::string_view escaped) {
  std::string token;
  token.reserve(escaped.size());
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '~') {
      token += escaped[i];
      continue;
    }
    ++i;
    if (i == escaped.size() || (escaped[i] != '0' && escaped[i] != '1')) {
      return std::nullopt;
    }
    token += escaped[i] == '0' ? '~' : '/';
  }
  return token;
}

}  // namespace

absl::StatusOr<JsonPointer> JsonPointer::parse(std::string_view text) {
  if (!isUtf8(text)) {
    return absl::InvalidArgumentError("a JSON Pointer must be UTF-8");
  }
  if (!text.empty() && text.front() != '/') {
    return refuse(text, "must be empty or start with '/'");
  }
  JsonPointer pointer;
  pointer.text_ = text;
  for (size_t begin = 1; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    std::optional<std::string> token = unescape(text.substr(begin, end - begin));
    if (!token.has_value()) {
      return refuse(text, "'~' must be followed by 0 or 1");
    }
    pointer.tokens_.push_back(*std::move(token));
    begin = end + 1;
  }
  if (pointer.tokens_.size() > MaxJsonDepth) {
    return refuse(text, fmt::format("reaches deeper than {} levels, where no body is read as JSON",
                                    MaxJsonDepth));
  }
  return pointer;
}

}  // namespace idempotency::fingerprint
