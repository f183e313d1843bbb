#include "source/key/structured_field.h"

#include <utility>

namespace idempotency::key {
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
// not there; the line is then refused, so the position of the cursor after a false does not matter.
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
  // OWS: allowed around the commas of a List.
  void skipWhiteSpace() {
    takeWhile([](char c) { return c == ' ' || c == '\t'; });
  }

  // RFC 8941 §4.2.1.
  bool takeList(std::vector<ListMember>& members);

  // RFC 8941 §4.2.5. `length` counts the whole value, also what does not fit into `value`.
  bool takeString(std::span<char> value, size_t& length);
  // RFC 8941 §4.2.3.2. `parameters` may be null.
  using Parameters = std::vector<std::pair<std::string, BareItem>>;
  bool takeParameters(Parameters* parameters = nullptr);

private:
  bool takeMember(ListMember& member);
  bool takeInnerList();
  // `item` may be null.
  bool takeBareItem(BareItem* item = nullptr);
  bool takeAnyBareItem();
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

// A later parameter takes the place of an earlier one of its name.
void setParameter(Cursor::Parameters& parameters, std::string_view name, BareItem value) {
  std::erase_if(parameters, [&](const auto& entry) { return entry.first == name; });
  parameters.emplace_back(name, std::move(value));
}

bool Cursor::takeParameters(Parameters* parameters) {
  while (take(';')) {
    skipSpaces();
    if (atEnd() || !isParameterNameStart(rest_.front())) {
      return false;
    }
    const std::string_view begin = rest_;
    const std::string_view name = begin.substr(0, takeWhile(isParameterName));
    BareItem value;
    if (parameters != nullptr) {
      value.text = "?1";
    }
    if (take('=') && !takeBareItem(parameters != nullptr ? &value : nullptr)) {
      return false;
    }
    if (parameters != nullptr) {
      setParameter(*parameters, name, std::move(value));
    }
  }
  return true;
}

bool Cursor::takeList(std::vector<ListMember>& members) {
  while (!atEnd()) {
    if (!takeMember(members.emplace_back())) {
      return false;
    }
    skipWhiteSpace();
    if (atEnd()) {
      return true;
    }
    if (!take(',')) {
      return false;
    }
    skipWhiteSpace();
    if (atEnd()) {
      return false;  // A comma at the end.
    }
  }
  return true;
}

bool Cursor::takeMember(ListMember& member) {
  member.inner_list = at('(');
  const bool taken = member.inner_list ? takeInnerList() : takeBareItem(&member.item);
  return taken && takeParameters(&member.parameters);
}

// RFC 8941 §4.2.1.2.
bool Cursor::takeInnerList() {
  take('(');
  while (!atEnd()) {
    skipSpaces();
    if (take(')')) {
      return true;
    }
    if (!takeBareItem() || !takeParameters() || (!at(' ') && !at(')'))) {
      return false;
    }
  }
  return false;
}

bool Cursor::takeBareItem(BareItem* item) {
  const std::string_view begin = rest_;
  if (item == nullptr || begin.empty()) {
    return takeAnyBareItem();
  }
  if (at('"')) {
    item->kind = BareItem::Kind::String;
    item->text.resize(begin.size());
    size_t length = 0;
    const bool taken = takeString(item->text, length);
    item->text.resize(length);
    return taken;
  }
  item->kind = at('*') || isAlpha(begin.front()) ? BareItem::Kind::Token : BareItem::Kind::Other;
  const bool taken = takeAnyBareItem();
  item->text = begin.substr(0, begin.size() - rest_.size());
  return taken;
}

// RFC 8941 §4.2.3.1, RFC 9651 §4.2.3.1.
bool Cursor::takeAnyBareItem() {
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

const BareItem* ListMember::parameter(std::string_view name) const {
  for (const auto& [own, value] : parameters) {
    if (own == name) {
      return &value;
    }
  }
  return nullptr;
}

std::optional<std::vector<ListMember>> parseList(std::span<const std::string_view> lines) {
  std::string joined;
  for (size_t i = 0; i < lines.size(); ++i) {
    joined += i == 0 ? "" : ",";
    joined += lines[i];
  }
  Cursor cursor(joined);
  cursor.skipSpaces();
  std::vector<ListMember> members;
  if (!cursor.takeList(members)) {
    return std::nullopt;
  }
  return members;
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

}  // namespace idempotency::key
