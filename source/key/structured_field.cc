#include "source/key/structured_field.h"

namespace idempotency {
namespace {

// RFC 8941 §3.3.1 and §3.3.2: how many digits a number may have.
constexpr size_t MaxIntegerDigits = 15;
constexpr size_t MaxDecimalIntegerDigits = 12;
constexpr size_t MaxFractionDigits = 3;

constexpr bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

constexpr bool isLowerAlpha(char c) {
  return c >= 'a' && c <= 'z';
}

constexpr bool isAlpha(char c) {
  return isLowerAlpha(c) || (c >= 'A' && c <= 'Z');
}

constexpr bool isParameterNameStart(char c) {
  return isLowerAlpha(c) || c == '*';
}

constexpr bool isParameterName(char c) {
  return isParameterNameStart(c) || isDigit(c) || c == '_' || c == '-' || c == '.';
}

// tchar of RFC 9110 §5.6.2, and the two that a Token may have besides.
constexpr bool isToken(char c) {
  constexpr std::string_view Marks = "!#$%&'*+-.^_`|~:/";
  return isAlpha(c) || isDigit(c) || Marks.find(c) != std::string_view::npos;
}

constexpr bool isBase64(char c) {
  return isAlpha(c) || isDigit(c) || c == '+' || c == '/';
}

// The value of a lower-case hexadecimal digit, which alone Display Strings use.
constexpr std::optional<uint8_t> hexValue(char c) {
  if (isDigit(c)) {
    return static_cast<uint8_t>(c - '0');
  }
  if (c >= 'a' && c <= 'f') {
    return static_cast<uint8_t>(c - 'a' + 10);
  }
  return std::nullopt;
}

// Tells byte by byte whether a text is UTF-8 (RFC 3629).
class Utf8Checker {
public:
  // False as soon as the text cannot be UTF-8 any more.
  bool next(uint8_t byte) {
    if (missing_ == 0) {
      return start(byte);
    }
    if (byte < low_ || byte > high_) {
      return false;
    }
    low_ = 0x80;
    high_ = 0xbf;
    --missing_;
    return true;
  }
  // Whether the text may end here.
  bool complete() const { return missing_ == 0; }

private:
  // The second byte's range shuts out overlong forms, surrogates and what lies beyond U+10FFFF.
  bool start(uint8_t byte) {
    low_ = 0x80;
    high_ = 0xbf;
    if (byte < 0x80) {
      return true;
    }
    if (byte >= 0xc2 && byte <= 0xdf) {
      missing_ = 1;
      return true;
    }
    if (byte >= 0xe0 && byte <= 0xef) {
      missing_ = 2;
      low_ = byte == 0xe0 ? 0xa0 : 0x80;
      high_ = byte == 0xed ? 0x9f : 0xbf;
      return true;
    }
    if (byte >= 0xf0 && byte <= 0xf4) {
      missing_ = 3;
      low_ = byte == 0xf0 ? 0x90 : 0x80;
      high_ = byte == 0xf4 ? 0x8f : 0xbf;
      return true;
    }
    return false;
  }

  uint8_t missing_ = 0;
  uint8_t low_ = 0x80;
  uint8_t high_ = 0xbf;
};

// Reads a line from left to right. Each take…() consumes what it names and is false where that is
// not there; the line is then refused, so where the cursor stands after a false does not matter.
class Cursor {
public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool atEnd() const { return rest_.empty(); }
  bool at(char c) const { return !rest_.empty() && rest_.front() == c; }

  bool take(char c) {
    if (!at(c)) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }

  void skipSpaces() {
    takeWhile([](char c) { return c == ' '; });
  }

  // RFC 8941 §4.2.5. `length` counts the whole value, also what does not fit into `value`.
  bool takeString(std::span<char> value, size_t& length);
  // RFC 8941 §4.2.3.2.
  bool takeParameters();

private:
  bool takeBareItem();
  bool takeNumber();
  bool takeDigits(size_t at_most);
  bool takeToken();
  bool takeByteSequence();
  bool takeBoolean();
  bool takeDate();
  bool takeDisplayString();

  char next() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  template <typename Predicate>
  size_t takeWhile(Predicate predicate) {
    size_t count = 0;
    while (count < rest_.size() && predicate(rest_[count])) {
      ++count;
    }
    rest_.remove_prefix(count);
    return count;
  }

  std::string_view rest_;
};

bool Cursor::takeString(std::span<char> value, size_t& length) {
  length = 0;
  if (!take('"')) {
    return false;
  }
  while (!atEnd()) {
    char c = next();
    if (c == '"') {
      return true;
    }
    if (c == '\\') {
      if (!at('"') && !at('\\')) {
        return false;
      }
      c = next();
    }
    if (!isPrintableAscii(c)) {
      return false;
    }
    if (length < value.size()) {
      value[length] = c;
    }
    ++length;
  }
  return false;
}

bool Cursor::takeParameters() {
  while (take(';')) {
    skipSpaces();
    if (atEnd() || !isParameterNameStart(rest_.front())) {
      return false;
    }
    takeWhile(isParameterName);
    if (take('=') && !takeBareItem()) {
      return false;
    }
  }
  return true;
}

// RFC 8941 §4.2.3.1, RFC 9651 §4.2.3.1.
bool Cursor::takeBareItem() {
  if (atEnd()) {
    return false;
  }
  const char first = rest_.front();
  if (first == '-' || isDigit(first)) {
    return takeNumber();
  }
  if (first == '*' || isAlpha(first)) {
    return takeToken();
  }
  switch (first) {
    case '"': {
      size_t length;
      return takeString({}, length);
    }
    case ':':
      return takeByteSequence();
    case '?':
      return takeBoolean();
    case '@':
      return takeDate();
    case '%':
      return takeDisplayString();
  }
  return false;
}

bool Cursor::takeDigits(size_t at_most) {
  const size_t count = takeWhile(isDigit);
  return count > 0 && count <= at_most;
}

bool Cursor::takeNumber() {
  take('-');
  const size_t before = rest_.size();
  if (!takeDigits(MaxIntegerDigits)) {
    return false;
  }
  if (!at('.')) {
    return true;
  }
  const size_t digits = before - rest_.size();
  take('.');
  return digits <= MaxDecimalIntegerDigits && takeDigits(MaxFractionDigits);
}

bool Cursor::takeToken() {
  return takeWhile(isToken) > 0;
}

// Padding may be left out (RFC 8941 §4.2.7), but what is there must be decodable.
bool Cursor::takeByteSequence() {
  take(':');
  const size_t digits = takeWhile(isBase64);
  const size_t padding = takeWhile([](char c) { return c == '='; });
  if (digits % 4 == 1 || (padding != 0 && (padding > 2 || (digits + padding) % 4 != 0))) {
    return false;
  }
  return take(':');
}

bool Cursor::takeBoolean() {
  take('?');
  return take('0') || take('1');
}

// RFC 9651 §4.2.9: an Integer. A fraction stays behind and is refused there.
bool Cursor::takeDate() {
  take('@');
  take('-');
  return takeDigits(MaxIntegerDigits);
}

// RFC 9651 §4.2.10.
bool Cursor::takeDisplayString() {
  take('%');
  if (!take('"')) {
    return false;
  }
  Utf8Checker utf8;
  while (!atEnd()) {
    const char c = next();
    if (c == '"') {
      return utf8.complete();
    }
    if (!isPrintableAscii(c)) {
      return false;
    }
    if (c != '%') {
      if (!utf8.next(static_cast<uint8_t>(c))) {
        return false;
      }
      continue;
    }
    if (rest_.size() < 2) {
      return false;
    }
    const auto high = hexValue(next());
    const auto low = hexValue(next());
    if (!high || !low || !utf8.next(static_cast<uint8_t>(*high << 4 | *low))) {
      return false;
    }
  }
  return false;
}

}  // namespace

StringItem parseStringItem(std::string_view line, std::span<char> value) {
  Cursor cursor(line);
  StringItem item;
  cursor.skipSpaces();
  if (!cursor.takeString(value, item.length) || !cursor.takeParameters()) {
    return {};
  }
  cursor.skipSpaces();
  if (cursor.at(',')) {
    return {.status = StringItemStatus::List};
  }
  if (!cursor.atEnd()) {
    return {};
  }
  item.status = StringItemStatus::Ok;
  return item;
}

std::optional<std::string> serializeString(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (!isPrintableAscii(c)) {
      return std::nullopt;
    }
    if (c == '"' || c == '\\') {
      text += '\\';
    }
    text += c;
  }
  text += '"';
  return text;
}

}  // namespace idempotency
