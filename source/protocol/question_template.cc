#include "source/protocol/question_template.h"

#include <algorithm>
#include <fmt/format.h>

namespace idempotency::protocol {
namespace {

bool isUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

// What a server may take for the end of a segment once it has decoded the path.
bool isSeparator(char c) {
  return c == '/' || c == '\\';
}

bool staysDecoded(char c) {
  return isUnreserved(c) || isSeparator(c);
}

bool fitsHeader(char c) {
  return static_cast<unsigned char>(c) >= ' ' && c != '\x7f' && c != '%';
}

void append(std::string& to, std::string_view value, bool (*stays)(char)) {
  for (const char c : value) {
    if (stays(c)) {
      to += c;
    } else {
      to += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
}

bool hasDotSegment(std::string_view path) {
  path = path.substr(0, path.find('?'));
  while (!path.empty()) {
    path.remove_prefix(1);  // A separator.
    const std::string_view segment = path.substr(0, path.find_first_of("/\\"));
    if (segment == "." || segment == "..") {
      return true;
    }
    path.remove_prefix(segment.size());
  }
  return false;
}

}  // namespace

std::optional<QuestionTemplate::Name> QuestionTemplate::nameOf(std::string_view placeholder) {
  if (placeholder == "tenant") {
    return Name::Tenant;
  }
  if (placeholder == "operation") {
    return Name::Operation;
  }
  if (placeholder == "key") {
    return Name::Key;
  }
  if (placeholder == "attempt") {
    return Name::Attempt;
  }
  return std::nullopt;
}

std::string QuestionTemplate::valueOf(Name name, const Identity& identity,
                                      protocol::Attempt attempt) {
  switch (name) {
    case Name::None:
      break;
    case Name::Tenant:
      return identity.tenant;
    case Name::Operation:
      return identity.operation;
    case Name::Key:
      return identity.key;
    case Name::Attempt:
      return fmt::format("{}", attempt);
  }
  return {};
}

std::optional<QuestionTemplate> QuestionTemplate::parse(std::string_view text) {
  QuestionTemplate parsed;
  parsed.text_ = text;
  while (!text.empty()) {
    Part part;
    const size_t brace = std::min(text.find_first_of("{}"), text.size());
    part.text = text.substr(0, brace);
    text.remove_prefix(brace);
    if (!text.empty()) {
      const size_t end = text.find('}');
      if (text.front() != '{' || end == std::string_view::npos) {
        return std::nullopt;
      }
      const std::optional<Name> name = nameOf(text.substr(1, end - 1));
      if (!name.has_value()) {
        return std::nullopt;
      }
      part.name = *name;
      text.remove_prefix(end + 1);
    }
    parsed.parts_.push_back(std::move(part));
  }
  return parsed;
}

std::optional<std::string> QuestionTemplate::path(const Identity& identity,
                                                  protocol::Attempt attempt) const {
  std::string path;
  // As a server or a proxy sees it that decodes slashes before it removes dot segments: it would
  // answer for another record, or for no record at all.
  std::string decoded;
  for (const Part& part : parts_) {
    const std::string value = valueOf(part.name, identity, attempt);
    path += part.text;
    append(path, value, isUnreserved);
    decoded += part.text;
    append(decoded, value, staysDecoded);
  }
  if (hasDotSegment(decoded)) {
    return std::nullopt;
  }
  return path;
}

std::string QuestionTemplate::headerValue(const Identity& identity,
                                          protocol::Attempt attempt) const {
  std::string value;
  for (const Part& part : parts_) {
    value += part.text;
    append(value, valueOf(part.name, identity, attempt), fitsHeader);
  }
  return value;
}

}  // namespace idempotency::protocol
