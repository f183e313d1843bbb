#include "source/cli/command.h"

#include <array>
#include <sstream>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <absl/status/status.h>

#include "bazel/version.h"

namespace idempotency::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

absl::StatusOr<ExitCode> sayName(const Arguments& arguments, Console& console) {
  console.out << "hello " << arguments.value("name").value_or("nobody");
  return ExitCode::Done;
}

absl::StatusOr<ExitCode> sayNo(const Arguments&, Console& console) {
  console.out << "no";
  return ExitCode::Refused;
}

absl::StatusOr<ExitCode> failAsAsked(const Arguments& arguments, Console&) {
  const std::string_view kind = arguments.operands()[0];
  return kind == "usage"   ? absl::InvalidArgumentError("bad file")
         : kind == "store" ? absl::UnavailableError("store is down")
                           : absl::NotFoundError("no such record");
}

constexpr std::array<Option, 2> Options = {
    {{"name", "TEXT", "whom to greet"}, {"tag", "T", "a tag", true}}};
constexpr std::array<Operand, 1> OneOperand = {{{"KIND", "of failure"}}};

const std::array Commands = {
    Command{"greet", "says hello", "Says hello to somebody.", Options, {}, sayName},
    Command{"greet not", "says no", "Says no.", {}, {}, sayNo},
    Command{"fail now", "fails", "Fails at once.", {}, OneOperand, failAsAsked},
};

struct Ran {
  int code;
  std::string out;
  std::string err;
};

Ran run(const std::vector<std::string_view>& words) {
  std::ostringstream out;
  std::ostringstream err;
  Console console = {.out = out, .err = err};
  const ExitCode code = runCommandLine(Commands, words, console);
  return {static_cast<int>(code), out.str(), err.str()};
}

TEST(CommandTest, ACommandRunsWithItsArguments) {
  const Ran ran = run({"greet", "--name", "Ada"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "hello Ada");
  EXPECT_THAT(ran.err, IsEmpty());
}

TEST(CommandTest, TheLongestCommandWins) {
  EXPECT_EQ(run({"greet", "not"}).out, "no");
}

TEST(CommandTest, ARefusalExitsWith1AndSaysNothingMore) {
  EXPECT_EQ(run({"greet", "not"}).code, 1);
  EXPECT_THAT(run({"greet", "not"}).err, IsEmpty());
}

TEST(CommandTest, AnErrorExitsWith1AndItsMessage) {
  const Ran ran = run({"fail", "now", "record"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "idempotencyctl: no such record\n");
}

TEST(CommandTest, AStoreThatIsDownExitsWith3) {
  const Ran ran = run({"fail", "now", "store"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.err, "idempotencyctl: store is down\n");
}

TEST(CommandTest, AnInvalidArgumentExitsWith2AndPointsToTheHelp) {
  const Ran ran = run({"fail", "now", "usage"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err, "idempotencyctl: bad file\nTry 'idempotencyctl fail now --help'.\n");
}

TEST(CommandTest, AWrongOptionExitsWith2BeforeAnythingRuns) {
  const Ran ran = run({"greet", "--nome", "Ada"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_EQ(ran.err, "idempotencyctl: unknown option --nome\nTry 'idempotencyctl greet --help'.\n");
}

TEST(CommandTest, NoWordShowsTheHelpOnStderrAndExitsWith2) {
  const Ran ran = run({});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_THAT(ran.err, HasSubstr("usage: idempotencyctl COMMAND"));
}

TEST(CommandTest, GeneralHelpListsEveryCommandAndTheExitCodes) {
  for (const std::string_view word : {"--help", "-h", "help"}) {
    const Ran ran = run({word});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.err, IsEmpty());
    EXPECT_THAT(ran.out, HasSubstr("  greet      says hello\n"));
    EXPECT_THAT(ran.out, HasSubstr("  greet not  says no\n"));
    EXPECT_THAT(ran.out, HasSubstr("  fail now   fails\n"));
    EXPECT_THAT(ran.out, HasSubstr("  1  the answer is no"));
    EXPECT_THAT(ran.out, HasSubstr("  3  the store cannot be reached"));
  }
}

TEST(CommandTest, TheVersionIsThatOfTheFileVersion) {
  const Ran ran = run({"--version"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "idempotencyctl " + std::string(Version) + "\n");
  EXPECT_THAT(ran.err, IsEmpty());
  EXPECT_EQ(run({"--version", "greet"}).code, 2);
}

TEST(CommandTest, ACommandsHelpShowsUsageOptionsAndSubcommands) {
  const Ran ran = run({"greet", "--help"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, IsEmpty());
  EXPECT_THAT(ran.out,
              HasSubstr("usage: idempotencyctl greet [OPTIONS]\n\nSays hello to somebody.\n"));
  EXPECT_THAT(ran.out, HasSubstr("  --name TEXT  whom to greet\n"));
  EXPECT_THAT(ran.out, HasSubstr("  --tag T      a tag (may be repeated)\n"));
  EXPECT_THAT(ran.out, HasSubstr("  --help       show this help\n"));
  EXPECT_THAT(ran.out, HasSubstr("  greet not  says no\n"));
  EXPECT_THAT(ran.out, Not(HasSubstr("fail now")));
  EXPECT_THAT(ran.out, HasSubstr("  2  usage"));
}

TEST(CommandTest, ACommandsHelpShowsItsOperands) {
  EXPECT_THAT(run({"fail", "now", "--help"}).out,
              HasSubstr("usage: idempotencyctl fail now [OPTIONS] [--] KIND\n"));
  EXPECT_THAT(run({"fail", "now", "--help"}).out, HasSubstr("  KIND  of failure\n"));
}

TEST(CommandTest, HelpComesBeforeComplaints) {
  EXPECT_EQ(run({"greet", "--nome", "--help"}).code, 0);
  EXPECT_EQ(run({"fail", "now", "--help"}).code, 0);
}

TEST(CommandTest, AGroupsHelpListsItsCommands) {
  const Ran ran = run({"fail", "--help"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("  fail now  fails\n"));
  EXPECT_THAT(ran.out, Not(HasSubstr("greet")));
}

TEST(CommandTest, AGroupWithoutItsCommandExitsWith2) {
  EXPECT_EQ(run({"fail"}).code, 2);
  EXPECT_EQ(run({"fail"}).err,
            "idempotencyctl: fail requires a command\nTry 'idempotencyctl fail --help'.\n");
  EXPECT_EQ(run({"fail", "later"}).code, 2);
  EXPECT_THAT(run({"fail", "later"}).err, HasSubstr("fail has no command later"));
}

TEST(CommandTest, AnUnknownCommandExitsWith2) {
  const Ran ran = run({"fly"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_EQ(ran.err, "idempotencyctl: unknown command fly\nTry 'idempotencyctl --help'.\n");
}

TEST(CommandTest, NoByteFromOutsideReachesTheTerminal) {
  EXPECT_THAT(run({"\x1b[2J"}).err, HasSubstr("unknown command \\x1b[2J\n"));
  EXPECT_THAT(run({"fail", "\x1b"}).err, HasSubstr("fail has no command \\x1b\n"));
}

}  // namespace
}  // namespace idempotency::cli
