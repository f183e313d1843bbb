#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace idempotency::operator_api {

// RFC 4648: the standard alphabet with padding.
std::string toBase64(std::string_view bytes);
[[nodiscard]] std::optional<std::string> fromBase64(std::string_view text);

// RFC 4648, section 5: for URLs, without padding.
std::string toBase64Url(std::string_view bytes);
// None unless toBase64Url() gives this text for the result: each text stands for other bytes.
[[nodiscard]] std::optional<std::string> fromBase64Url(std::string_view text);

}  // namespace idempotency::operator_api
