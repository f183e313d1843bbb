#include "test/fingerprint/random_json.h"

#include <array>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace idempotency::fingerprint {

std::string RandomJson::text() {
  out_.clear();
  spaced_ = oneIn(2);
  space();
  value(0);
  space();
  return std::move(out_);
}

std::string RandomJson::mutated(std::string text) {
  constexpr std::string_view Interesting =
      "\"\\{}[]:,.eE+-0199 \n\t/ubfnrt\x7f\x80\xbf\xc2\xed\xef\xf0\xf4\xff";
  for (size_t i = below(3) + 1; i > 0 && !text.empty(); --i) {
    const size_t place = below(text.size());
    switch (below(5)) {
      case 0:
        text[place] = Interesting[below(Interesting.size())];
        break;
      case 1:
        text.erase(place, below(4) + 1);
        break;
      case 2:
        text.insert(place, text.substr(place, below(6)));
        break;
      case 3:
        std::swap(text[place], text[below(text.size())]);
        break;
      default:
        text[place] = static_cast<char>(below(256));
        break;
    }
  }
  return text;
}

void RandomJson::space() {
  while (spaced_ && oneIn(3)) {
    out_.append(oneIn(8) ? below(40) : 1, " \n\r\t"[below(4)]);
  }
}

void RandomJson::value(int depth) {
  constexpr std::array<std::string_view, 3> Literals = {"null", "true", "false"};
  constexpr size_t LongEnough = 1000;
  switch (below(depth > 5 || out_.size() > LongEnough ? 4 : 8)) {
    case 0:
      out_ += Literals[below(Literals.size())];
      break;
    case 1:
    case 2:
      number();
      break;
    case 3:
      string(oneIn(10) ? 80 : 12);
      break;
    case 4:
      array(depth);
      break;
    default:
      object(depth);
      break;
  }
}

void RandomJson::object(int depth) {
  out_ += '{';
  space();
  const size_t count = oneIn(10) ? below(40) : below(6);
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) {
      out_ += ',';
      space();
    }
    if (oneIn(4)) {
      string(10);
    } else {
      out_ += fmt::format("\"{}{}\"", oneIn(4) ? "long_prefix_" : "", below(count * count + 100));
    }
    space();
    out_ += ':';
    space();
    value(depth + 1);
    space();
  }
  out_ += '}';
}

void RandomJson::array(int depth) {
  out_ += '[';
  space();
  for (size_t i = below(5); i > 0; --i) {
    value(depth + 1);
    space();
    if (i > 1) {
      out_ += ',';
      space();
    }
  }
  out_ += ']';
}

void RandomJson::string(size_t longest) {
  out_ += '"';
  const bool plain = oneIn(2);
  for (size_t i = below(longest + 1); i > 0; --i) {
    if (plain || !oneIn(4)) {
      out_ += static_cast<char>('a' + below(26));
    } else {
      character();
    }
  }
  out_ += '"';
}

void RandomJson::character() {
  constexpr std::array<std::string_view, 12> Raw = {" ",
                                                    "!",
                                                    "/",
                                                    "\x7f",
                                                    "\xc2\x80",
                                                    "\xdf\xbf",
                                                    "\xe0\xa0\x80",
                                                    "\xed\x9f\xbf",
                                                    "\xee\x80\x80",
                                                    "\xef\xbf\xbf",
                                                    "\xf0\x90\x80\x80",
                                                    "\xf4\x8f\xbf\xbf"};
  switch (below(5)) {
    case 0:
      out_ += Raw[below(Raw.size())];
      break;
    case 1:
      out_ += '\\';
      out_ += "\"\\/bfnrt"[below(8)];
      break;
    case 2:
      out_ += fmt::format("\\u{:04x}", below(0x80));
      break;
    case 3:
      out_ += fmt::format("\\u{:04X}", below(0xd800));
      break;
    default:
      out_ += fmt::format("\\u{:04x}\\u{:04X}", 0xd800 + below(0x400), 0xdc00 + below(0x400));
      break;
  }
}

void RandomJson::number() {
  out_ += oneIn(4) ? "-" : "";
  if (oneIn(4)) {
    out_ += '0';
  } else {
    out_ += static_cast<char>('1' + below(9));
    digits(oneIn(10) ? 25 : 5);
  }
  if (oneIn(3)) {
    out_ += '.';
    out_ += static_cast<char>('0' + below(10));
    digits(oneIn(10) ? 25 : 3);
  }
  if (oneIn(4)) {
    constexpr std::array<std::string_view, 4> Exponents = {"e", "E", "e+", "E-"};
    out_ += Exponents[below(4)];
    out_ += std::to_string(oneIn(20) ? below(400) : below(25));
  }
}

void RandomJson::digits(size_t longest) {
  for (size_t i = below(longest + 1); i > 0; --i) {
    out_ += static_cast<char>('0' + (oneIn(2) ? 0 : below(10)));
  }
}

}  // namespace idempotency::fingerprint
