#include "source/operator_api/base64.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace idempotency::operator_api {
namespace {

constexpr std::string_view Standard =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view ForUrls =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr uint32_t DigitBits = 6;
constexpr uint32_t ByteBits = 8;

std::string encode(std::string_view bytes, std::string_view alphabet) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  uint32_t kept = 0;
  uint32_t bits = 0;  // Of `kept`, that are not written yet.
  for (const char byte : bytes) {
    kept = kept << ByteBits | static_cast<uint8_t>(byte);
    for (bits += ByteBits; bits >= DigitBits; bits -= DigitBits) {
      text += alphabet[kept >> (bits - DigitBits) & 63];
    }
  }
  if (bits > 0) {
    text += alphabet[kept << (DigitBits - bits) & 63];
  }
  return text;
}

std::optional<std::string> decode(std::string_view text, std::string_view alphabet) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t kept = 0;
  uint32_t bits = 0;
  for (const char digit : text) {
    const size_t value = alphabet.find(digit);
    if (value == std::string_view::npos) {
      return std::nullopt;
    }
    kept = kept << DigitBits | static_cast<uint32_t>(value);
    bits += DigitBits;
    if (bits >= ByteBits) {
      bits -= ByteBits;
      bytes += static_cast<char>(kept >> bits & 255);
    }
  }
  const bool whole = text.size() % 4 != 1;
  const bool rest_is_zero = (kept & ((1U << bits) - 1)) == 0;
  return whole && rest_is_zero ? std::optional(bytes) : std::nullopt;
}

}  // namespace

std::string toBase64(std::string_view bytes) {
  std::string text = encode(bytes, Standard);
  text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

std::optional<std::string> fromBase64(std::string_view text) {
  const size_t digits = std::min(text.find('='), text.size());
  const std::string_view padding = text.substr(digits);
  if (text.size() % 4 != 0 || padding.size() > 2 ||
      padding.find_first_not_of('=') != std::string_view::npos) {
    return std::nullopt;
  }
  return decode(text.substr(0, digits), Standard);
}

std::string toBase64Url(std::string_view bytes) {
  return encode(bytes, ForUrls);
}

std::optional<std::string> fromBase64Url(std::string_view text) {
  return decode(text, ForUrls);
}

}  // namespace idempotency::operator_api
