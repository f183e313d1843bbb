#include "source/cli/arguments.h"

#include <array>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::array<Option, 5> Options = {{
    {"name", "TEXT", "once"},
    {"tag", "TEXT", "often", true},
    {"size", "N", "a number"},
    {"quiet", "", "a switch"},
    {.name = "secret", .value = "TEXT", .help = "", .refusal = "others can see it."},
}};
constexpr std::array<Operand, 2> TwoOperands = {{{"A", "first"}, {"B", "second"}}};
constexpr std::array<Operand, 2> OneOrMore = {{{"A", "first"}, {"B", "rest", true}}};

using Words = std::vector<std::string_view>;

absl::StatusOr<Arguments> parse(const Words& words, std::span<const Operand> operands = {}) {
  return Arguments::parse(words, Options, operands);
}

// The message of a usage error, or "ok".
std::string problem(const Words& words, std::span<const Operand> operands = {}) {
  const auto result = parse(words, operands);
  if (result.ok()) {
    return "ok";
  }
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

TEST(ArgumentsTest, ValueFollowsOrIsJoined) {
  EXPECT_EQ(parse({"--name", "x"})->value("name"), "x");
  EXPECT_EQ(parse({"--name=x"})->value("name"), "x");
  EXPECT_EQ(parse({"--name=x=y"})->value("name"), "x=y");
  EXPECT_EQ(parse({"--name="})->value("name"), "");
  EXPECT_EQ(parse({"--name", ""})->value("name"), "");
}

TEST(ArgumentsTest, AValueMayLookLikeAnOption) {
  EXPECT_EQ(parse({"--name", "--quiet"})->value("name"), "--quiet");
  EXPECT_FALSE(parse({"--name", "--quiet"})->has("quiet"));
}

TEST(ArgumentsTest, AnOptionThatIsNotGivenHasNoValue) {
  EXPECT_EQ(parse({})->value("name"), std::nullopt);
  EXPECT_FALSE(parse({})->has("name"));
  EXPECT_THAT(parse({})->values("tag"), IsEmpty());
}

TEST(ArgumentsTest, RepeatedOptionsKeepTheirOrder) {
  EXPECT_THAT(parse({"--tag", "b", "--quiet", "--tag=a", "--tag", "b"})->values("tag"),
              ElementsAre("b", "a", "b"));
}

TEST(ArgumentsTest, SwitchesAreOnOrOff) {
  EXPECT_TRUE(parse({"--quiet"})->has("quiet"));
  EXPECT_FALSE(parse({})->has("quiet"));
}

TEST(ArgumentsTest, OptionsAndOperandsMayBeMixed) {
  const auto arguments = parse({"a", "--quiet", "b", "--name", "x"}, TwoOperands);
  EXPECT_THAT(arguments->operands(), ElementsAre("a", "b"));
  EXPECT_EQ(arguments->value("name"), "x");
}

TEST(ArgumentsTest, AfterTwoDashesEverythingIsAnOperand) {
  EXPECT_THAT(parse({"--", "--name", "--"}, TwoOperands)->operands(), ElementsAre("--name", "--"));
}

TEST(ArgumentsTest, ASingleDashIsAnOperand) {
  EXPECT_THAT(parse({"-", "b"}, TwoOperands)->operands(), ElementsAre("-", "b"));
}

TEST(ArgumentsTest, AnEmptyWordIsAnOperand) {
  EXPECT_THAT(parse({"", "b"}, TwoOperands)->operands(), ElementsAre("", "b"));
}

TEST(ArgumentsTest, TheLastOperandMayBeRepeated) {
  EXPECT_THAT(parse({"a", "b", "c", "d"}, OneOrMore)->operands(), ElementsAre("a", "b", "c", "d"));
}

TEST(ArgumentsTest, WrongOptionsAreNamed) {
  EXPECT_EQ(problem({"--nome", "x"}), "unknown option --nome");
  EXPECT_EQ(problem({"--nam=x"}), "unknown option --nam");
  EXPECT_EQ(problem({"-n", "x"}), "unknown option -n");
  EXPECT_EQ(problem({"-name", "x"}), "unknown option -name");
  EXPECT_EQ(problem({"--=x"}), "unknown option --");
  EXPECT_EQ(problem({"--name"}), "--name requires a value: TEXT");
  EXPECT_EQ(problem({"--quiet=yes"}), "--quiet takes no value");
  EXPECT_EQ(problem({"--name", "x", "--name=y"}), "--name is given twice");
  EXPECT_EQ(problem({"--quiet", "--quiet"}), "--quiet is given twice");
  EXPECT_EQ(problem({"--a\x1b[2J"}), "unknown option --a\\x1b[2J");
}

TEST(ArgumentsTest, ARefusedOptionIsNamedWithItsReasonAndWithoutItsValue) {
  for (const Words& words : {Words{"--secret", "x"}, Words{"--secret=x"}, Words{"--secret"}}) {
    EXPECT_EQ(problem(words), "--secret is not accepted: others can see it.");
  }
}

TEST(ArgumentsTest, JoinedOptionsKeepTheirOrder) {
  constexpr auto Joined = joinOptions(std::array<Option, 1>{{{"a", "", ""}}}, Options);
  static_assert(Joined.size() == 6);
  EXPECT_EQ(Joined[0].name, "a");
  EXPECT_EQ(Joined[1].name, "name");
  EXPECT_EQ(Joined[5].name, "secret");
}

TEST(ArgumentsTest, WrongNumbersOfOperandsAreNamed) {
  EXPECT_EQ(problem({}, TwoOperands), "A is missing");
  EXPECT_EQ(problem({"a"}, TwoOperands), "B is missing");
  EXPECT_EQ(problem({"a"}, OneOrMore), "B is missing");
  EXPECT_EQ(problem({"a", "b", "c"}, TwoOperands), "too many arguments: c");
  EXPECT_EQ(problem({"a"}), "too many arguments: a");
}

TEST(ArgumentsTest, RequiredOptionsAreNamed) {
  EXPECT_EQ(parse({})->required("name").status().message(), "--name is missing");
  EXPECT_EQ(*parse({"--name", "x"})->required("name"), "x");
}

TEST(ArgumentsTest, NumbersAreHeldToTheirRange) {
  const auto number = [](std::string_view text) {
    return parse({"--size", text})->number("size", 1, 255, 7);
  };
  EXPECT_EQ(*parse({})->number("size", 1, 255, 7), 7);
  EXPECT_EQ(*number("1"), 1);
  EXPECT_EQ(*number("255"), 255);
  for (const std::string_view bad :
       {"0", "256", "-1", "+1", " 1", "1 ", "1x", "x", "", "0x10", "99999999999999999999"}) {
    EXPECT_FALSE(number(bad).ok()) << bad;
  }
  EXPECT_EQ(number("x").status().message(), "--size is x; must be a number from 1 to 255");
}

TEST(AsksForHelpTest, AnywhereBeforeTwoDashes) {
  EXPECT_TRUE(asksForHelp(Words{"--help"}));
  EXPECT_TRUE(asksForHelp(Words{"a", "-h"}));
  EXPECT_FALSE(asksForHelp(Words{}));
  EXPECT_FALSE(asksForHelp(Words{"help"}));
  EXPECT_FALSE(asksForHelp(Words{"a", "--", "--help"}));
}

}  // namespace
}  // namespace idempotency::cli
