#include "source/fingerprint/media_type.h"

#include <algorithm>

namespace idempotency::fingerprint {
namespace {

// RFC 9110, section 5.6.3.
constexpr std::string_view OptionalSpace = " \t";
constexpr std::string_view JsonType = "application/json";
constexpr std::string_view JsonSuffix = "+json";

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(OptionalSpace);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(OptionalSpace) - begin + 1);
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

bool equalsIgnoringCase(std::string_view text, std::string_view lower_case) {
  return std::equal(text.begin(), text.end(), lower_case.begin(), lower_case.end(),
                    [](char a, char b) { return lower(a) == b; });
}

void appendLower(std::string& out, std::string_view text) {
  std::transform(text.begin(), text.end(), std::back_inserter(out), lower);
}

// RFC 9110, section 5.6.2.
bool isTokenCharacter(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

bool isToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), isTokenCharacter);
}

bool isEssence(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && isToken(text.substr(0, slash)) &&
         isToken(text.substr(slash + 1));
}

bool isJsonEssence(std::string_view essence) {
  if (!isEssence(essence)) {
    return false;
  }
  if (equalsIgnoringCase(essence, JsonType)) {
    return true;
  }
  const std::string_view subtype = essence.substr(essence.find('/') + 1);
  return subtype.size() > JsonSuffix.size() &&
         equalsIgnoringCase(subtype.substr(subtype.size() - JsonSuffix.size()), JsonSuffix);
}

std::string_view essenceOf(std::string_view content_type) {
  return trim(content_type.substr(0, content_type.find(';')));
}

// Cuts the next parameter off `rest`, which starts behind its semicolon. A semicolon inside of a
// quoted value does not end it.
std::string_view takeParameter(std::string_view& rest) {
  bool quoted = false;
  size_t end = 0;
  for (; end < rest.size() && (quoted || rest[end] != ';'); ++end) {
    if (rest[end] == '"') {
      quoted = !quoted;
    } else if (quoted && rest[end] == '\\' && end + 1 < rest.size()) {
      ++end;
    }
  }
  const std::string_view parameter = trim(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return parameter;
}

bool isUtf8Charset(std::string_view parameter) {
  return equalsIgnoringCase(parameter, "charset=utf-8") ||
         equalsIgnoringCase(parameter, "charset=\"utf-8\"");
}

// What normalMediaType() never changes.
bool isNormalCharacter(char c) {
  return lower(c) == c && c != ';' && c != ' ' && c != '\t';
}

void appendParameter(std::string& out, std::string_view parameter) {
  const size_t name_end = std::min(parameter.find('='), parameter.size());
  out += ';';
  appendLower(out, parameter.substr(0, name_end));
  out += parameter.substr(name_end);
}

}  // namespace

std::string_view normalMediaType(std::string_view content_type, std::string& scratch) {
  if (std::all_of(content_type.begin(), content_type.end(), isNormalCharacter)) {
    return content_type;
  }
  const std::string_view essence = essenceOf(content_type);
  if (!isEssence(essence)) {
    return trim(content_type);
  }
  scratch.clear();
  appendLower(scratch, essence);
  const bool json = isJsonEssence(essence);
  const size_t semicolon = std::min(content_type.find(';'), content_type.size() - 1);
  for (std::string_view rest = content_type.substr(semicolon + 1); !rest.empty();) {
    const std::string_view parameter = takeParameter(rest);
    if (!parameter.empty() && !(json && isUtf8Charset(parameter))) {
      appendParameter(scratch, parameter);
    }
  }
  return scratch;
}

bool isJsonMediaType(std::string_view content_type) {
  return isJsonEssence(essenceOf(content_type));
}

}  // namespace idempotency::fingerprint
