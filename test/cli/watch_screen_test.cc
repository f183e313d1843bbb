#include "source/cli/watch_screen.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/cli/text_table.h"
#include "test/cli/operator_program.h"

namespace idempotency::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

constexpr TerminalSize Large = {.columns = 200, .rows = 50};

WatchView viewOf(size_t records) {
  WatchView view;
  view.store_name = "PostgreSQL";
  view.summary.unsettled = {
      {.operation = "create-payment", .records = records, .dead_letters = 1, .oldest = 2h}};
  view.summary.tenants = {{.tenant = "acme", .records = records, .oldest = 2h}};
  view.summary.states = {{protocol::RecordState::Unknown, records}};
  for (size_t i = 0; i < records; ++i) {
    store::Record record = test::recordIn(protocol::RecordState::Unknown, 1);
    record.claim_age = std::chrono::minutes(i);
    view.records.push_back({{"acme", "create-payment", "key-" + std::to_string(i)}, record});
  }
  return view;
}

TEST(WatchScreenTest, ShowsWhatIsStuckSinceWhenAndWhoIsAffected) {
  const std::string frame = drawWatch(viewOf(3), Large, false);
  EXPECT_THAT(frame, HasSubstr("3 unknown, 1 of them dead letters, the oldest for 2h 0m"));
  EXPECT_THAT(frame, HasSubstr("create-payment"));
  EXPECT_THAT(frame, HasSubstr("acme"));
  EXPECT_LT(frame.find("key-2"), frame.find("key-1")) << "the oldest come first";
  EXPECT_LT(frame.find("key-1"), frame.find("key-0"));
}

TEST(WatchScreenTest, ShowsThatNothingIsStuck) {
  WatchView view;
  EXPECT_THAT(drawWatch(view, Large, false), HasSubstr("No outcome is unknown."));
}

TEST(WatchScreenTest, NeverLeavesTheScreen) {
  for (const TerminalSize size : {TerminalSize{80, 24}, TerminalSize{20, 5}, TerminalSize{1, 1}}) {
    const std::string frame = drawWatch(viewOf(100), size, false);
    EXPECT_LT(static_cast<size_t>(std::count(frame.begin(), frame.end(), '\n')), size.rows);
    size_t start = 0;
    while (start <= frame.size()) {
      const size_t end = std::min(frame.find('\n', start), frame.size());
      EXPECT_LE(shownWidth(frame.substr(start, end - start)), size.columns);
      start = end + 1;
    }
  }
}

TEST(WatchScreenTest, ColorsAreExtra) {
  std::string colored = drawWatch(viewOf(3), Large, true);
  EXPECT_THAT(colored, HasSubstr("\x1b["));
  EXPECT_THAT(drawWatch(viewOf(3), Large, false), Not(HasSubstr("\x1b")));
}

TEST(WatchScreenTest, AnErrorOfTheStoreIsShownWithTheLastAnswer) {
  WatchView view = viewOf(3);
  view.error = "connection refused";
  const std::string frame = drawWatch(view, Large, false);
  EXPECT_THAT(frame, HasSubstr("no answer from the store: connection refused"));
  EXPECT_THAT(frame, HasSubstr("key-2"));
}

TEST(WatchScreenTest, NoByteOfARecordReachesTheTerminalAsItIs) {
  WatchView view = viewOf(1);
  view.records[0].identity = {"\x1b[2J", "\x07", "a\nb"};
  view.summary.unsettled[0].operation = "\x1b]0;x";
  view.summary.tenants[0].tenant = "\x9b";
  view.summary.leader = "\x1b[1m";
  view.error = "\x1b[1m";
  const std::string frame = drawWatch(view, Large, false);
  EXPECT_THAT(frame, Not(HasSubstr("\x1b")));
  EXPECT_THAT(frame, HasSubstr("a\\nb"));
}

}  // namespace
}  // namespace idempotency::cli
