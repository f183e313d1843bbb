#include "source/fingerprint/json_reader.h"

#include <array>
#include <cstring>

#include "source/fingerprint/json_escape.h"
#include "source/fingerprint/json_marks.h"
#include "source/fingerprint/utf8.h"

namespace idempotency::fingerprint {
namespace {

// Objects up to this size are sorted by moving their members. Nested ones are moved as often as
// they are nested: this bounds that.
constexpr size_t SmallObject = 512;

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
  uint32_t start;            // Where its `{` stands.
  size_t opened;             // What MemberIndex::open() was.
  size_t kept;               // What MemberIndex::kept() was.
  uint32_t last_name = 0;    // Where the last member's name starts, behind the quote; 0: none yet.
  uint64_t last_prefix = 0;  // Of that name, if all are plain.
  bool sorted = true;        // So far.
  bool plain = true;         // No name has escapes or bytes from 0x80.
  bool excludes = false;
  SmallOrder::Prefixes& prefixes;  // Of the first members.
};

void JsonReader::usePointers(const JsonPointerSet& pointers, PointerUse use,
                             std::span<JsonSpan> found) {
  pointers_ = &pointers;
  use_ = use;
  found_ = found;
}

JsonRejection JsonReader::read() {
  const Node* const root = pointers_ == nullptr || pointers_->empty() ? nullptr : pointers_->root();
  char* p = pointedValue(text_.skipSpace(text_.begin()), root);
  if (p == nullptr) {
    return rejection_;
  }
  p = text_.skipSpace(p);
  if (p != end_) {
    return JsonRejection::Malformed;
  }
  text_.settle(p);
  size_ = isExcluded(root) ? 0 : text_.position(p);
  return index_.finish() ? JsonRejection::None : JsonRejection::TooLarge;
}

char* JsonReader::fail(JsonRejection rejection) {
  rejection_ = rejection;
  return nullptr;
}

bool JsonReader::isExcluded(const Node* node) const {
  return node != nullptr && use_ == PointerUse::Exclude && node->pointer() != Node::NoPointer;
}

// A value that pointers may name.
char* JsonReader::pointedValue(char* p, const Node* node) {
  const uint32_t begin = text_.position(p);
  p = value(p, node);
  if (p != nullptr && node != nullptr && use_ == PointerUse::Select &&
      node->pointer() != Node::NoPointer) {
    found_[node->pointer()] = {begin, text_.position(p)};
  }
  return p;
}

[[gnu::always_inline]] inline char* JsonReader::value(char* p, const Node* node) {
  switch (*p) {
    case '"':
      return string(p);
    case '{':
      return object(p, node);
    case '[':
      return array(p, node);
    case 't':
      return literal(p, "true");
    case 'f':
      return literal(p, "false");
    case 'n':
      return literal(p, "null");
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
      return number(p);
    default:
      return fail(JsonRejection::Malformed);
  }
}

inline char* JsonReader::literal(char* p, std::string_view word) {
  if (std::memcmp(p, word.data(), word.size()) != 0) {
    return fail(JsonRejection::Malformed);
  }
  return p + word.size();
}

[[gnu::always_inline]] inline char* JsonReader::number(char* p) {
  const NumberScan scan = scanNumber(p);
  return scan.canonical ? p + (scan.end - p) : otherNumber(p, scan.end);
}

// A number that has to be written in another way.
char* JsonReader::otherNumber(char* p, const char* end) {
  if (end == nullptr) {
    return fail(JsonRejection::Malformed);
  }
  const auto size = static_cast<size_t>(end - p);
  std::array<char, MaxCanonicalNumber> canonical;
  const size_t canonical_size = canonicalNumber({p, size}, rule_, canonical.data());
  if (canonical_size == 0) {
    return fail(JsonRejection::InexactNumber);
  }
  if (canonical_size <= size) {
    text_.replace(p, p + size, canonical.data(), canonical_size);
  } else {
    *p = JsonMark::ofNumber(*p);
    resized_ = true;
  }
  return p + size;
}

[[gnu::always_inline]] inline char* JsonReader::string(char* p) {
  ++p;
  plain_ = true;
  uint32_t special = Bytes16::load(p).notPlain();
  if (special == 0) {
    p += Bytes16::Size;
    special = Bytes16::load(p).notPlain();
  }
  if (special != 0) {
    char* const first = p + firstBit(special);
    if (*first == '"') {
      return first + 1;
    }
  }
  return stringFrom(p);
}

// Goes on inside of a string.
char* JsonReader::stringFrom(char* p) {
  while (p != nullptr) {
    const uint32_t special = Bytes16::load(p).notPlain();
    if (special == 0) {
      p += 16;
      continue;
    }
    p += firstBit(special);
    if (*p == '"') {
      return p + 1;
    }
    plain_ = false;
    p = *p == '\\' ? escape(p) : multibyte(p);
  }
  return nullptr;
}

// At a byte from 0x80, or at a control, which no string may hold.
char* JsonReader::multibyte(char* p) {
  if (static_cast<signed char>(*p) >= 0) {
    return fail(JsonRejection::Malformed);
  }
  do {
    const size_t length = utf8Length(p);
    if (length == 0) {
      return fail(JsonRejection::BadUtf8);
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
      return p + 2;  // Canonical as it is.
    case '/':
      return replaceEscape(p, p + 2, '/');
    case 'u':
      return unicodeEscape(p);
    default:
      return fail(JsonRejection::Malformed);
  }
}

char* JsonReader::unicodeEscape(char* p) {
  const uint32_t unit = readHex(p + 2);
  if (unit == NoHex) {
    return fail(JsonRejection::Malformed);
  }
  if (!isHighSurrogate(unit) && !isLowSurrogate(unit)) {
    return replaceEscape(p, p + 6, unit);
  }
  const bool paired = isHighSurrogate(unit) && p[6] == '\\' && p[7] == 'u';
  const uint32_t low = paired ? readHex(p + 8) : NoHex;
  if (!isLowSurrogate(low)) {
    return fail(JsonRejection::LoneSurrogate);
  }
  return replaceEscape(p, p + 12, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
}

char* JsonReader::replaceEscape(char* p, char* to, uint32_t code_point) {
  std::array<char, 6> canonical;
  const size_t size = canonicalCharacter(code_point, canonical.data());
  text_.replace(p, to, canonical.data(), size);
  return to;
}

char* JsonReader::object(char* p, const Node* node) {
  if (depth_ == MaxJsonDepth) {
    return fail(JsonRejection::TooDeep);
  }
  SmallOrder::Prefixes prefixes;  // Not initialised: a good part of what this function would cost.
  OpenObject object = {.start = text_.position(p),
                       .opened = index_.open(),
                       .kept = index_.kept(),
                       .prefixes = prefixes};
  p = text_.skipSpace(p + 1);
  if (*p == '}') {
    return p + 1;
  }
  ++depth_;
  for (;;) {
    p = member(p, object, node);
    if (p == nullptr) {
      return nullptr;
    }
    p = text_.skipSpace(p);
    if (*p != ',') {
      break;
    }
    p = text_.skipSpace(p + 1);
  }
  if (*p != '}') {
    return fail(JsonRejection::Malformed);
  }
  --depth_;
  return closeObject(p + 1, object) ? p + 1 : nullptr;
}

[[gnu::always_inline]] inline char* JsonReader::member(char* p, OpenObject& object,
                                                       const Node* node) {
  const uint32_t start = text_.position(p);
  p = memberName(p, object);
  if (p == nullptr) {
    return nullptr;
  }
  const Node* child = nullptr;
  uint32_t flags = 0;
  if (node != nullptr) {
    child = pointedMember(p, start, *node);
    flags = isExcluded(child) ? Member::Excluded : 0;
    object.excludes = object.excludes || flags != 0;
  }
  if (!index_.add(start | flags)) {
    return fail(JsonRejection::TooLarge);
  }
  p = text_.skipSpace(p);
  if (*p != ':') {
    return fail(JsonRejection::Malformed);
  }
  p = text_.skipSpace(p + 1);
  return child == nullptr ? value(p, nullptr) : memberValue(p, child);
}

// Reads a name and compares it with the one before.
[[gnu::always_inline]] inline char* JsonReader::memberName(char* p, OpenObject& object) {
  if (*p != '"') {
    return fail(JsonRejection::Malformed);
  }
  const char* const begin = p + 1;
  const uint32_t name = text_.position(begin);
  p = string(p);
  if (p == nullptr) {
    return nullptr;
  }
  object.plain = object.plain && plain_;
  const uint64_t prefix = namePrefix(begin);
  if (!object.plain || prefix == object.last_prefix) {
    compareWithLast(p, name, object);
  } else {
    object.sorted = object.sorted && prefix > object.last_prefix;
  }
  object.last_prefix = prefix;
  object.last_name = name;
  if (const size_t count = index_.open() - object.opened; count < SmallOrder::MaxMembers) {
    object.prefixes[count] = prefix;
  }
  return p;
}

// `p` is behind the name of the member that starts at that position.
const JsonPointerSet::Node* JsonReader::pointedMember(char* p, uint32_t start, const Node& node) {
  text_.settle(p);
  const char* const name = text_.begin() + start + 1;
  return pointers_->member(node, {name, text_.position(p) - start - 2});
}

// When the first bytes of two names do not tell.
void JsonReader::compareWithLast(char* p, uint32_t name, OpenObject& object) {
  if (!object.sorted || object.last_name == 0) {
    return;
  }
  text_.settle(p);
  const char* const last = text_.begin() + object.last_name;
  const char* const now = text_.begin() + name;
  object.sorted = (object.plain ? comparePlainNames(last, now) : compareNames(last, now)) < 0;
}

char* JsonReader::memberValue(char* p, const Node* node) {
  text_.settle(p);
  const uint32_t begin = text_.position(p);
  const size_t kept = index_.kept();
  p = pointedValue(p, node);
  if (p != nullptr && isExcluded(node)) {
    text_.rewind(begin, p);
    index_.forget(kept);
  }
  return p;
}

// `p` is behind the `}`.
inline bool JsonReader::closeObject(char* p, const OpenObject& object) {
  if (object.sorted && !object.excludes) {
    index_.close(object.opened);
    return true;
  }
  const bool movable = found_.empty() && object.plain && !object.excludes &&
                       object.kept == index_.kept() &&
                       index_.open() - object.opened <= SmallOrder::MaxMembers &&
                       text_.position(p) - object.start <= SmallObject;
  return movable ? sortInPlace(p, object) : sortByIndex(p, object);
}

// Members are moved to their places. Nothing inside of the object may be known to the index, which
// would not find it any more, and no value in it may have been selected.
bool JsonReader::sortInPlace(char* p, const OpenObject& object) {
  const uint32_t end = text_.position(p);
  const std::span<const uint32_t> members = index_.members(object.opened);
  char* const first = text_.textFrom(members[0], p);
  const char* const text = first - members[0];
  const uint8_t* const order = small_order_.find(text, members, object.prefixes);
  if (order == nullptr) {
    return fail(JsonRejection::DuplicateName) != nullptr;
  }
  std::array<char, SmallObject + WideSlack> sorted;
  char* out = sorted.data();
  for (size_t place = 0; place < members.size(); ++place) {
    const size_t i = order[place];
    const uint32_t next = i + 1 < members.size() ? members[i + 1] : end;
    const size_t size = next - members[i] - 1;
    copyWide(out, text + members[i], size);
    out += size;
    *out++ = ',';
  }
  std::memcpy(first, sorted.data(), static_cast<size_t>(out - sorted.data()) - 1);
  index_.close(object.opened);
  return true;
}

// Members stay, and the index tells their order.
bool JsonReader::sortByIndex(char* p, const OpenObject& object) {
  text_.settle(p);
  char* const begin = text_.begin();
  const std::span<uint32_t> members = index_.members(object.opened);
  begin[object.start] = JsonMark::Object;
  for (const uint32_t member : members.subspan(1)) {
    begin[(member & Member::Position) - 1] = JsonMark::MemberEnd;
  }
  begin[text_.position(p) - 1] = JsonMark::MemberEnd;
  resized_ = resized_ || object.excludes;
  if (!object.sorted && !sortMembers(begin, members, object.plain)) {
    return fail(JsonRejection::DuplicateName) != nullptr;
  }
  if (!index_.closeAndKeep(object.opened, object.start)) {
    return fail(JsonRejection::TooLarge) != nullptr;
  }
  return true;
}

char* JsonReader::array(char* p, const Node* node) {
  if (depth_ == MaxJsonDepth) {
    return fail(JsonRejection::TooDeep);
  }
  p = text_.skipSpace(p + 1);
  if (*p == ']') {
    return p + 1;
  }
  ++depth_;
  p = node == nullptr ? elements(p) : pointedElements(p, *node);
  if (p == nullptr) {
    return nullptr;
  }
  if (*p != ']') {
    return fail(JsonRejection::Malformed);
  }
  --depth_;
  return p + 1;
}

inline char* JsonReader::elements(char* p) {
  for (;;) {
    p = value(p, nullptr);
    if (p == nullptr) {
      return nullptr;
    }
    p = text_.skipSpace(p);
    if (*p != ',') {
      return p;
    }
    p = text_.skipSpace(p + 1);
  }
}

// The commas of excluded elements go, too.
char* JsonReader::pointedElements(char* p, const Node& node) {
  bool any_kept = false;
  for (uint32_t i = 0;; ++i) {
    const Node* const child = pointers_->element(node, i);
    text_.settle(p);
    const uint32_t begin = text_.position(p);
    const size_t kept = index_.kept();
    p = pointedValue(p, child);
    if (p == nullptr) {
      return nullptr;
    }
    if (isExcluded(child)) {
      text_.rewind(begin - (any_kept ? 1 : 0), p);
      index_.forget(kept);
    }
    any_kept = any_kept || !isExcluded(child);
    p = text_.skipSpace(p);
    if (*p != ',') {
      return p;
    }
    if (!any_kept) {
      text_.replace(p, p + 1, "", 0);
    }
    p = text_.skipSpace(p + 1);
  }
}

}  // namespace idempotency::fingerprint
