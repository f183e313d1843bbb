#include "source/config/conninfo.h"

#include <string>

namespace idempotency::config {
namespace {

bool isSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool isSecretWord(std::string_view word) {
  return word == "password" || word == "sslpassword";
}

void skipSpaces(std::string_view& text) {
  while (!text.empty() && isSpace(text.front())) {
    text.remove_prefix(1);
  }
}

// A value, quoted ('it''s' is written 'it\'s') or up to the next space. False if a quote or escape
// stays open.
bool skipValue(std::string_view& text) {
  const bool quoted = text.starts_with('\'');
  if (quoted) {
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    if (quoted ? text.front() == '\'' : isSpace(text.front())) {
      if (quoted) {
        text.remove_prefix(1);
      }
      return true;
    }
    text.remove_prefix(text.front() == '\\' && text.size() > 1 ? 2 : 1);
  }
  return !quoted;
}

ConninfoContent inspectWords(std::string_view text) {
  auto content = ConninfoContent::Clean;
  for (skipSpaces(text); !text.empty(); skipSpaces(text)) {
    const size_t end = text.find_first_of("= \t\n\r\f\v");
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(word.size());
    skipSpaces(text);
    if (word.empty() || !text.starts_with('=')) {
      return ConninfoContent::Malformed;
    }
    text.remove_prefix(1);
    skipSpaces(text);
    if (!skipValue(text)) {
      return ConninfoContent::Malformed;
    }
    if (isSecretWord(word)) {
      content = ConninfoContent::Password;
    }
  }
  return content;
}

int hexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string percentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hexDigit(text[i + 1]) >= 0 &&
        hexDigit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(hexDigit(text[i + 1]) * 16 + hexDigit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

ConninfoContent inspectUri(std::string_view rest) {
  const size_t query_start = rest.find('?');
  const std::string_view address = rest.substr(0, query_start);
  const std::string_view authority = address.substr(0, address.find('/'));
  const size_t at = authority.rfind('@');
  if (at != std::string_view::npos && authority.substr(0, at).find(':') != std::string_view::npos) {
    return ConninfoContent::Password;
  }
  std::string_view query =
      query_start == std::string_view::npos ? std::string_view() : rest.substr(query_start + 1);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    if (isSecretWord(percentDecode(pair.substr(0, pair.find('='))))) {
      return ConninfoContent::Password;
    }
    query.remove_prefix(pair.size());
    if (!query.empty()) {
      query.remove_prefix(1);
    }
  }
  return ConninfoContent::Clean;
}

}  // namespace

ConninfoContent inspectConninfo(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    return ConninfoContent::Malformed;
  }
  for (const std::string_view scheme : {"postgresql://", "postgres://"}) {
    if (text.starts_with(scheme)) {
      return inspectUri(text.substr(scheme.size()));
    }
  }
  return inspectWords(text);
}

}  // namespace idempotency::config
