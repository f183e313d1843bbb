#include "source/fingerprint/number.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "test/fingerprint/es6_numbers.h"

namespace idempotency::fingerprint {
namespace {

std::string canonical(std::string_view text, NumberRule rule = NumberRule::Exact) {
  std::array<char, MaxCanonicalNumber> out;
  return std::string(out.data(), canonicalNumber(text, rule, out.data()));
}

std::string canonical(double value) {
  std::array<char, MaxCanonicalNumber> out;
  return std::string(out.data(), canonicalNumber(value, out.data()));
}

struct Case {
  std::string text;
  std::string want;  // Empty: has no canonical form.
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.text;
}

class NumberTest : public testing::TestWithParam<Case> {};

TEST_P(NumberTest, GivesWanted) {
  EXPECT_EQ(canonical(GetParam().text), GetParam().want);
}

TEST_P(NumberTest, ScanAgreesWithGrammarAndCanonicalForm) {
  const std::string guarded = GetParam().text + ",       ";
  const NumberScan scan = scanNumber(guarded.data());
  EXPECT_EQ(scan.end, guarded.data() + GetParam().text.size());
  if (scan.canonical) {
    EXPECT_EQ(GetParam().want, GetParam().text);
  }
}

INSTANTIATE_TEST_SUITE_P(
    SameValue, NumberTest,
    testing::Values(
        Case{"0", "0"}, Case{"-0", "0"}, Case{"0.0", "0"}, Case{"-0.0", "0"}, Case{"0e0", "0"},
        Case{"-0e-99999999999999999999", "0"}, Case{"0e99999999999999999999", "0"}, Case{"1", "1"},
        Case{"-1", "-1"}, Case{"1.0", "1"}, Case{"10", "10"}, Case{"1e2", "100"},
        Case{"1E+2", "100"}, Case{"100e-2", "1"}, Case{"0.1", "0.1"}, Case{"-0.1", "-0.1"},
        Case{"0.10", "0.1"}, Case{"12.50", "12.5"}, Case{"1e20", "100000000000000000000"},
        Case{"1e21", "1e+21"}, Case{"-1.5E+21", "-1.5e+21"},
        Case{"1234567890123456000000000", "1.234567890123456e+24"}, Case{"0.000001", "0.000001"},
        Case{"0.0000001", "1e-7"}, Case{"0.00000123", "0.00000123"}, Case{"1e-6", "0.000001"},
        Case{"1e-7", "1e-7"}, Case{"0.1e-6", "1e-7"}, Case{"9007199254740991", "9007199254740991"},
        Case{"9007199254740992", "9007199254740992"},
        Case{"-9007199254740994", "-9007199254740994"}, Case{"999999999999999", "999999999999999"},
        Case{"333333333.3333333", "333333333.3333333"}, Case{"4.5e+0", "4.5"},
        Case{"1.7976931348623157e308", "1.7976931348623157e+308"},
        Case{"2.2250738585072014e-308", "2.2250738585072014e-308"}, Case{"5e-324", "5e-324"},
        Case{"1e300", "1e+300"}, Case{"1e308", "1e+308"}, Case{"1e-307", "1e-307"},
        Case{"1000000000000000000000000000000e-30", "1"},
        Case{"0.000000000000000000000000000001e30", "1"},
        Case{"-0.0000012345678901234567", "-0.0000012345678901234567"}),
    [](const auto& info) { return std::to_string(info.index); });

INSTANTIATE_TEST_SUITE_P(
    OtherValue, NumberTest,
    testing::Values(Case{"9007199254740993", ""}, Case{"-9007199254740993", ""},
                    Case{"9007199254740993.0", ""}, Case{"90071992547409930e-1", ""},
                    Case{"18446744073709551616", ""}, Case{"18446744073709551615", ""},
                    Case{"0.1000000000000000055", ""},
                    Case{"0.1000000000000000055511151231257827", ""}, Case{"1e400", ""},
                    Case{"-1e400", ""}, Case{"1e309", ""}, Case{"1e-400", ""}, Case{"2e-324", ""},
                    Case{"4e-324", ""}, Case{"4.9e-324", ""}, Case{"1e99999999999999999999", ""},
                    Case{"1e-99999999999999999999", ""}, Case{"333333333.33333329", ""},
                    Case{"1.00000000000000000000000000000001", ""}, Case{"0.30000000000000001", ""},
                    Case{"1.7976931348623159e308", ""}),
    [](const auto& info) { return std::to_string(info.index); });

TEST(NumberRuleTest, RoundedNumbersFollowTheRfc) {
  EXPECT_EQ(canonical("9007199254740993", NumberRule::Rounded), "9007199254740992");
  EXPECT_EQ(canonical("333333333.33333329", NumberRule::Rounded), "333333333.3333333");
  EXPECT_EQ(canonical("0.1000000000000000055511151231257827", NumberRule::Rounded), "0.1");
  EXPECT_EQ(canonical("18446744073709551616", NumberRule::Rounded), "18446744073709552000");
  EXPECT_EQ(canonical("4e-324", NumberRule::Rounded), "5e-324");
  EXPECT_EQ(canonical("1.0", NumberRule::Rounded), "1");
}

TEST(NumberRuleTest, InfinityIsNeverWritten) {
  EXPECT_EQ(canonical("1e400", NumberRule::Rounded), "");
  for (const uint64_t bits : {0x7fffffffffffffffU, 0x7ff0000000000000U, 0xfff0000000000000U}) {
    EXPECT_EQ(canonical(std::bit_cast<double>(bits)), "");
  }
}

TEST(NumberTimeTest, LongNumbersAreReadInOneGo) {
  const std::string zeros(1 << 20, '0');
  EXPECT_EQ(canonical("1" + zeros + "e-1048576"), "1");
  EXPECT_EQ(canonical("0." + zeros + "1e1048577"), "1");
  EXPECT_EQ(canonical("1" + zeros), "");
  EXPECT_EQ(canonical("1." + zeros + "1"), "");
}

TEST(NumberScanTest, MalformedNumbersAreRefused) {
  for (const std::string_view text : {"", "-", "+1", ".5", "-.5", "a", "--1", "1.", "1.e1", "1e",
                                      "1e+", "1e-", "-e1", "1.x", "-a"}) {
    const std::string guarded = std::string(text) + ",        ";
    EXPECT_EQ(scanNumber(guarded.data()).end, nullptr) << text;
  }
}

TEST(NumberScanTest, StopsAtTheFirstByteThatIsNoPart) {
  for (const auto& [text, size] : {std::pair<std::string_view, ptrdiff_t>{"01", 1},
                                   {"-01", 2},
                                   {"1.5.5", 3},
                                   {"1e5e5", 3},
                                   {"1e5.5", 3},
                                   {"1_000", 1},
                                   {"12345678:", 8},
                                   {"1234567\xff", 7},
                                   {"123456789012345678901234/", 24}}) {
    const std::string guarded = std::string(text) + ",        ";
    EXPECT_EQ(scanNumber(guarded.data()).end, guarded.data() + size) << text;
  }
}

TEST(NumberScanTest, DigitsEndAtAnyOtherByteInAnyPlace) {
  for (int byte = 0; byte < 256; ++byte) {
    if (byte >= '0' && byte <= '9') {
      continue;
    }
    for (size_t size = 0; size < 20; ++size) {
      std::string text(40, '9');
      text[size] = static_cast<char>(byte);
      ASSERT_EQ(skipDigits(text.data()), text.data() + size) << byte;
    }
  }
}

// Whatever scanNumber() calls canonical must be what the slow way gives.
TEST(NumberScanTest, CanonicalAtSightIsCanonical) {
  constexpr uint32_t Seed = 8785;
  std::mt19937 random(Seed);
  const auto digits = [&random](size_t most) {
    std::string text;
    for (size_t i = random() % (most + 1); i > 0; --i) {
      text += static_cast<char>('0' + (random() % 3 == 0 ? 0 : random() % 10));
    }
    return text;
  };
  size_t at_sight = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string text = random() % 2 == 0 ? "-" : "";
    text += random() % 3 == 0 ? "0" : std::to_string(1 + random() % 9) + digits(17);
    if (random() % 2 == 0) {
      text += "." + digits(9) + std::to_string(random() % 10);
    }
    const std::string guarded = text + "]        ";
    const NumberScan scan = scanNumber(guarded.data());
    ASSERT_EQ(scan.end, guarded.data() + text.size()) << text;
    if (scan.canonical) {
      ++at_sight;
      ASSERT_EQ(canonical(text), text);
    }
  }
  EXPECT_GT(at_sight, 20000U);
}

// The short way, by digits alone, must agree with the long way, through a double.
TEST(NumberTest, FewDigitsNeedNoDouble) {
  constexpr uint32_t Seed = 15;
  std::mt19937_64 random(Seed);
  for (int i = 0; i < 200000; ++i) {
    std::string text = std::to_string(random() % 1'000'000'000'000'000 >> (random() % 50));
    text += "e" + std::to_string(static_cast<int>(random() % 560) - 290);
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    ASSERT_EQ(canonical(text), canonical(value)) << text;
  }
}

// RFC 8785, appendix B.
TEST(NumberTest, PublishedSequenceGivesPublishedHash) {
  const Es6Lines lines = es6Lines(10000);
  EXPECT_EQ(lines.bytes, 399022U);
  EXPECT_EQ(lines.sha256, "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892");
  EXPECT_EQ(lines.changed, 0U);
}

}  // namespace
}  // namespace idempotency::fingerprint
