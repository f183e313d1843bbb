#include "source/fingerprint/number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

namespace idempotency::fingerprint {
namespace {

// Every decimal of up to 15 digits survives the way to a double and back, as long as the double is
// not subnormal; so its canonical digits are its own.
constexpr int SafeDigits = 15;
constexpr int64_t SafePoint = 300;
// No double needs more digits to be told apart from its neighbours.
constexpr int MaxDigits = 17;

// 0.DIGITS × 10^point, without zeros at either end of the digits. No digits: zero.
struct Decimal {
  std::array<char, MaxDigits> digits;
  int count = 0;
  int64_t point = 0;
  bool negative = false;
};

class Writer {
public:
  explicit Writer(char* out) : begin_(out), out_(out) {}
  void put(char c) { *out_++ = c; }
  void put(const char* text, int64_t size) {
    std::memcpy(out_, text, static_cast<size_t>(size));
    out_ += size;
  }
  void zeros(int64_t count) {
    std::memset(out_, '0', static_cast<size_t>(count));
    out_ += count;
  }
  void integer(int64_t value) { out_ = std::to_chars(out_, out_ + 20, value).ptr; }
  size_t size() const { return static_cast<size_t>(out_ - begin_); }

private:
  char* begin_;
  char* out_;
};

// ECMA-262, Number::toString, steps 6 to 10.
size_t layOut(const Decimal& decimal, char* out) {
  Writer writer(out);
  const char* digits = decimal.digits.data();
  if (decimal.count == 0) {
    writer.put('0');
    return writer.size();
  }
  if (decimal.negative) {
    writer.put('-');
  }
  if (decimal.count <= decimal.point && decimal.point <= 21) {
    writer.put(digits, decimal.count);
    writer.zeros(decimal.point - decimal.count);
  } else if (0 < decimal.point && decimal.point <= 21) {
    writer.put(digits, decimal.point);
    writer.put('.');
    writer.put(digits + decimal.point, decimal.count - decimal.point);
  } else if (-6 < decimal.point && decimal.point <= 0) {
    writer.put("0.", 2);
    writer.zeros(-decimal.point);
    writer.put(digits, decimal.count);
  } else {
    writer.put(digits[0]);
    if (decimal.count > 1) {
      writer.put('.');
      writer.put(digits + 1, decimal.count - 1);
    }
    writer.put('e');
    writer.put(decimal.point > 0 ? '+' : '-');
    writer.integer(std::abs(decimal.point - 1));
  }
  return writer.size();
}

// Saturates far outside of what a double can be, and far from overflow when digits are counted in.
int64_t readExponent(const char* p, const char* end) {
  constexpr int64_t Limit = 1'000'000'000'000;
  const bool negative = *p == '-';
  if (*p == '-' || *p == '+') {
    ++p;
  }
  int64_t exponent = 0;
  for (; p != end; ++p) {
    exponent = std::min(exponent * 10 + (*p - '0'), Limit);
  }
  return negative ? -exponent : exponent;
}

// Collects the digits of a number without the zeros around them.
class DigitCollector {
public:
  explicit DigitCollector(Decimal& decimal) : decimal_(decimal) {}

  // False if there are more digits than any double needs.
  bool add(char digit) {
    if (digit == '0') {
      ++zeros_;
      return true;
    }
    if (decimal_.count == 0) {
      leading_zeros_ = zeros_;
      zeros_ = 0;
    }
    if (decimal_.count + zeros_ >= MaxDigits) {
      return false;
    }
    std::memset(decimal_.digits.data() + decimal_.count, '0', static_cast<size_t>(zeros_));
    decimal_.count += static_cast<int>(zeros_);
    decimal_.digits[static_cast<size_t>(decimal_.count++)] = digit;
    zeros_ = 0;
    return true;
  }
  int64_t leadingZeros() const { return leading_zeros_; }

private:
  Decimal& decimal_;
  int64_t zeros_ = 0;  // Not yet known to stand between other digits.
  int64_t leading_zeros_ = 0;
};

// None if no double's shortest digits can be these. The text must be a JSON number.
std::optional<Decimal> readDecimal(std::string_view text) {
  Decimal decimal;
  DigitCollector digits(decimal);
  const char* p = text.data();
  const char* const end = p + text.size();
  if (*p == '-') {
    decimal.negative = true;
    ++p;
  }
  int64_t before_point = 0;
  bool fraction = false;
  for (; p != end && *p != 'e' && *p != 'E'; ++p) {
    if (*p == '.') {
      fraction = true;
      continue;
    }
    before_point += fraction ? 0 : 1;
    if (!digits.add(*p)) {
      return std::nullopt;
    }
  }
  decimal.point = before_point - digits.leadingZeros() + (p != end ? readExponent(p + 1, end) : 0);
  return decimal;
}

// Shortest digits that give the double back. The value must be finite and not zero.
Decimal shortestDecimal(double value) {
  std::array<char, 32> text;
  const char* const end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific)
          .ptr;
  return *readDecimal({text.data(), static_cast<size_t>(end - text.data())});
}

bool sameDecimal(const Decimal& a, const Decimal& b) {
  return a.point == b.point && a.negative == b.negative &&
         std::string_view(a.digits.data(), static_cast<size_t>(a.count)) ==
             std::string_view(b.digits.data(), static_cast<size_t>(b.count));
}

// The nearest double; none if it would be infinite or zero. The decimal must not be zero.
std::optional<double> toDouble(const Decimal& decimal) {
  constexpr int64_t BeyondDoubles = 400;
  if (std::abs(decimal.point) > BeyondDoubles) {
    return std::nullopt;
  }
  std::array<char, 64> text;
  Writer writer(text.data());
  if (decimal.negative) {
    writer.put('-');
  }
  writer.put("0.", 2);
  writer.put(decimal.digits.data(), decimal.count);
  writer.put('e');
  writer.integer(decimal.point);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + writer.size(), value);
  if (error != std::errc() || value == 0 || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// Whether the shortest digits of the nearest double are these, as it is known without looking.
bool isSafe(const Decimal& decimal) {
  return decimal.count == 0 ||
         (decimal.count <= SafeDigits && std::abs(decimal.point) <= SafePoint);
}

bool isShortest(const Decimal& decimal) {
  const std::optional<double> value = toDouble(decimal);
  return value.has_value() && sameDecimal(decimal, shortestDecimal(*value));
}

}  // namespace

size_t canonicalNumber(double value, char* out) {
  if (!std::isfinite(value)) {
    return 0;
  }
  return layOut(value == 0 ? Decimal() : shortestDecimal(value), out);
}

size_t canonicalNumber(std::string_view json_number, NumberRule rule, char* out) {
  const std::optional<Decimal> decimal = readDecimal(json_number);
  if (decimal.has_value() && (isSafe(*decimal) || isShortest(*decimal))) {
    return layOut(*decimal, out);
  }
  double value = 0;
  const auto [end, error] =
      std::from_chars(json_number.data(), json_number.data() + json_number.size(), value);
  return rule == NumberRule::Rounded && error == std::errc() ? canonicalNumber(value, out) : 0;
}

}  // namespace idempotency::fingerprint
