#include "source/fingerprint/json_reader.h"

#include <array>
#include <cstring>

#include "source/fingerprint/json_escape.h"
#include "source/fingerprint/json_marks.h"
#include "source/fingerprint/utf8.h"

namespace idempotency {
namespace {

constexpr uint32_t NoHex = 0xffffffff;

uint32_t hexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return static_cast<uint32_t>(c - '0');
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? static_cast<uint32_t>(lower - 'a' + 10) : NoHex;
}

// The four digits of \uXXXX; NoHex if they are not. Reads no further than the first that is none.
uint32_t readHex(const char* p) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t digit = hexDigit(p[i]);
    if (digit == NoHex) {
      return NoHex;
    }
    value = value << 4 | digit;
  }
  return value;
}

bool isHighSurrogate(uint32_t unit) {
  return unit >= 0xd800 && unit <= 0xdbff;
}
bool isLowSurrogate(uint32_t unit) {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

// How RFC 8785 writes a character.
size_t canonicalCharacter(uint32_t code_point, char* out) {
  if (code_point < 0x20) {
    const std::string_view escape = canonicalControl(static_cast<unsigned char>(code_point));
    std::memcpy(out, escape.data(), escape.size());
    return escape.size();
  }
  if (code_point == '"' || code_point == '\\') {
    out[0] = '\\';
    out[1] = static_cast<char>(code_point);
    return 2;
  }
  return utf8Encode(code_point, out);
}

}  // namespace

struct JsonReader::OpenObject {
  uint32_t start;          // Where its `{` stands.
  size_t opened;           // What MemberIndex::open() was.
  uint32_t last_name = 0;  // Where the last member's name starts, behind the quote; 0: none yet.
  bool sorted = true;      // So far.
  bool plain = true;       // No name has a backslash.
  bool excludes = false;
};

void JsonReader::usePointers(const JsonPointerSet& pointers, PointerUse use,
                             std::span<JsonSpan> found) {
  pointers_ = &pointers;
  use_ = use;
  found_ = found;
}

JsonRejection JsonReader::read() {
  const Node* const root = pointers_ == nullptr || pointers_->empty() ? nullptr : pointers_->root();
  text_.skipSpace();
  if (!pointedValue(root)) {
    return rejection_;
  }
  text_.skipSpace();
  if (!text_.atEnd()) {
    return JsonRejection::Malformed;
  }
  text_.settle();
  if (isExcluded(root)) {
    text_.rewind(0);
  }
  return index_.finish() ? JsonRejection::None : JsonRejection::TooLarge;
}

bool JsonReader::fail(JsonRejection rejection) {
  rejection_ = rejection;
  return false;
}

bool JsonReader::isExcluded(const Node* node) const {
  return node != nullptr && use_ == PointerUse::Exclude && node->pointer() != Node::NoPointer;
}

// A value that pointers may name.
bool JsonReader::pointedValue(const Node* node) {
  const uint32_t begin = text_.position();
  if (!value(node)) {
    return false;
  }
  if (node != nullptr && use_ == PointerUse::Select && node->pointer() != Node::NoPointer) {
    found_[node->pointer()] = {begin, text_.position()};
  }
  return true;
}

bool JsonReader::value(const Node* node) {
  switch (text_.next()) {
    case '"':
      return string();
    case '{':
      return object(node);
    case '[':
      return array(node);
    case 't':
      return literal("true");
    case 'f':
      return literal("false");
    case 'n':
      return literal("null");
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
      return number();
    default:
      return fail(JsonRejection::Malformed);
  }
}

bool JsonReader::literal(std::string_view word) {
  if (std::memcmp(text_.read(), word.data(), word.size()) != 0) {
    return fail(JsonRejection::Malformed);
  }
  text_.keep(word.size());
  return true;
}

bool JsonReader::number() {
  char* const begin = text_.read();
  const NumberScan scan = scanNumber(begin);
  if (scan.end == nullptr) {
    return fail(JsonRejection::Malformed);
  }
  const auto size = static_cast<size_t>(scan.end - begin);
  if (scan.canonical) {
    text_.keep(size);
    return true;
  }
  std::array<char, MaxCanonicalNumber> canonical;
  const size_t canonical_size = canonicalNumber({begin, size}, rule_, canonical.data());
  if (canonical_size == 0) {
    return fail(JsonRejection::InexactNumber);
  }
  if (canonical_size <= size) {
    text_.replace(begin + size, canonical.data(), canonical_size);
    return true;
  }
  *begin = JsonMark::ofNumber(*begin);
  resized_ = true;
  text_.keep(size);
  return true;
}

bool JsonReader::string() {
  escaped_ = false;
  char* p = text_.read() + 1;
  for (;;) {
    const uint32_t special = Bytes16::load(p).notPlain();
    if (special == 0) {
      p += 16;
      continue;
    }
    p += firstBit(special);
    if (*p == '"') {
      text_.keepTo(p + 1);
      return true;
    }
    p = *p == '\\' ? escape(p) : multibyte(p);
    if (p == nullptr) {
      return false;
    }
  }
}

// At a byte from 0x80, or at a control, which no string may hold.
char* JsonReader::multibyte(char* p) {
  if (static_cast<signed char>(*p) >= 0) {
    fail(JsonRejection::Malformed);
    return nullptr;
  }
  do {
    const size_t length = utf8Length(p);
    if (length == 0) {
      fail(JsonRejection::BadUtf8);
      return nullptr;
    }
    p += length;
  } while (static_cast<signed char>(*p) < 0);
  return p;
}

char* JsonReader::escape(char* p) {
  switch (p[1]) {
    case '"':
    case '\\':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
      escaped_ = true;
      return p + 2;  // Canonical as it is.
    case '/':
      return replaceEscape(p, p + 2, '/');
    case 'u':
      return unicodeEscape(p);
    default:
      fail(JsonRejection::Malformed);
      return nullptr;
  }
}

char* JsonReader::unicodeEscape(char* p) {
  const uint32_t unit = readHex(p + 2);
  if (unit == NoHex) {
    fail(JsonRejection::Malformed);
    return nullptr;
  }
  if (!isHighSurrogate(unit) && !isLowSurrogate(unit)) {
    return replaceEscape(p, p + 6, unit);
  }
  const bool paired = isHighSurrogate(unit) && p[6] == '\\' && p[7] == 'u';
  const uint32_t low = paired ? readHex(p + 8) : NoHex;
  if (!isLowSurrogate(low)) {
    fail(JsonRejection::LoneSurrogate);
    return nullptr;
  }
  return replaceEscape(p, p + 12, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
}

char* JsonReader::replaceEscape(char* p, char* to, uint32_t code_point) {
  std::array<char, 6> canonical;
  const size_t size = canonicalCharacter(code_point, canonical.data());
  escaped_ = escaped_ || canonical[0] == '\\';
  text_.keepTo(p);
  text_.replace(to, canonical.data(), size);
  return to;
}

bool JsonReader::object(const Node* node) {
  if (depth_ == MaxJsonDepth) {
    return fail(JsonRejection::TooDeep);
  }
  ++depth_;
  OpenObject object = {.start = text_.position(), .opened = index_.open()};
  text_.keep(1);
  text_.skipSpace();
  if (text_.next() != '}') {
    for (;;) {
      if (!addMember(object, node)) {
        return false;
      }
      text_.skipSpace();
      if (text_.next() != ',') {
        break;
      }
      text_.keep(1);
      text_.skipSpace();
    }
    if (text_.next() != '}') {
      return fail(JsonRejection::Malformed);
    }
  }
  text_.keep(1);
  --depth_;
  return closeObject(object);
}

bool JsonReader::addMember(OpenObject& object, const Node* node) {
  const uint32_t start = text_.position();
  if (!memberName(object)) {
    return false;
  }
  const Node* child = nullptr;
  if (node != nullptr) {
    text_.settle();
    const char* const name = text_.begin() + start + 1;
    child = pointers_->member(*node, {name, text_.position() - start - 2});
  }
  const bool excluded = isExcluded(child);
  object.excludes = object.excludes || excluded;
  if (!index_.add(excluded ? start | Member::Excluded : start)) {
    return fail(JsonRejection::TooLarge);
  }
  text_.skipSpace();
  if (text_.next() != ':') {
    return fail(JsonRejection::Malformed);
  }
  text_.keep(1);
  text_.skipSpace();
  return child == nullptr ? value(nullptr) : memberValue(child);
}

// Reads a name and compares it with the one before.
bool JsonReader::memberName(OpenObject& object) {
  if (text_.next() != '"') {
    return fail(JsonRejection::Malformed);
  }
  text_.settle();
  const uint32_t name = text_.position() + 1;
  const char* const unmoved = text_.read() + 1;
  if (!string()) {
    return false;
  }
  object.plain = object.plain && !escaped_;
  if (object.sorted && object.last_name != 0) {
    const char* const last = text_.begin() + object.last_name;
    const char* now = unmoved;
    if (!text_.isKept(now)) {  // The string had an escape that is written in another way.
      text_.settle();
      now = text_.begin() + name;
    }
    object.sorted = (object.plain ? comparePlainNames(last, now) : compareNames(last, now)) < 0;
  }
  object.last_name = name;
  return true;
}

bool JsonReader::memberValue(const Node* node) {
  text_.settle();
  const uint32_t begin = text_.position();
  const size_t kept = index_.kept();
  if (!pointedValue(node)) {
    return false;
  }
  if (isExcluded(node)) {
    text_.rewind(begin);
    index_.forget(kept);
  }
  return true;
}

// Behind the `}`.
bool JsonReader::closeObject(const OpenObject& object) {
  if (object.sorted && !object.excludes) {
    index_.close(object.opened);
    return true;
  }
  text_.settle();
  char* const begin = text_.begin();
  const std::span<uint32_t> members = index_.members(object.opened);
  begin[object.start] = JsonMark::Object;
  for (const uint32_t member : members.subspan(1)) {
    begin[(member & Member::Position) - 1] = JsonMark::MemberEnd;
  }
  begin[text_.position() - 1] = JsonMark::MemberEnd;
  resized_ = resized_ || object.excludes;
  if (!object.sorted && !sortMembers(begin, members, object.plain)) {
    return fail(JsonRejection::DuplicateName);
  }
  return index_.closeAndKeep(object.opened, object.start) || fail(JsonRejection::TooLarge);
}

bool JsonReader::array(const Node* node) {
  if (depth_ == MaxJsonDepth) {
    return fail(JsonRejection::TooDeep);
  }
  ++depth_;
  text_.keep(1);
  text_.skipSpace();
  if (text_.next() != ']') {
    if (!(node == nullptr ? elements() : pointedElements(*node))) {
      return false;
    }
    if (text_.next() != ']') {
      return fail(JsonRejection::Malformed);
    }
  }
  text_.keep(1);
  --depth_;
  return true;
}

bool JsonReader::elements() {
  for (;;) {
    if (!value(nullptr)) {
      return false;
    }
    text_.skipSpace();
    if (text_.next() != ',') {
      return true;
    }
    text_.keep(1);
    text_.skipSpace();
  }
}

// The commas of excluded elements go, too.
bool JsonReader::pointedElements(const Node& node) {
  bool any_kept = false;
  for (uint32_t i = 0;; ++i) {
    const Node* const child = pointers_->element(node, i);
    text_.settle();
    const uint32_t begin = text_.position();
    const size_t kept = index_.kept();
    if (!pointedValue(child)) {
      return false;
    }
    if (isExcluded(child)) {
      text_.rewind(begin - (any_kept ? 1 : 0));
      index_.forget(kept);
    }
    any_kept = any_kept || !isExcluded(child);
    text_.skipSpace();
    if (text_.next() != ',') {
      return true;
    }
    if (any_kept) {
      text_.keep(1);
    } else {
      text_.drop(1);
    }
    text_.skipSpace();
  }
}

}  // namespace idempotency
