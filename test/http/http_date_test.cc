#include "source/http/http_date.h"

#include <cstdint>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

namespace idempotency::http {
namespace {

struct Row {
  int64_t time;
  const char* text;
};

// By `date -u -d @N`.
constexpr Row Rows[] = {
    {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
    {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
    {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
    {951868799, "Tue, 29 Feb 2000 23:59:59 GMT"},
    {1709164800, "Thu, 29 Feb 2024 00:00:00 GMT"},
    {1735689599, "Tue, 31 Dec 2024 23:59:59 GMT"},
    {2147483648, "Tue, 19 Jan 2038 03:14:08 GMT"},
    {4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"},
    {253402300799, "Fri, 31 Dec 9999 23:59:59 GMT"},
};

TEST(HttpDateTest, WritesAndReadsFixdates) {
  for (const Row& row : Rows) {
    EXPECT_EQ(formatHttpDate(row.time), row.text);
    EXPECT_EQ(parseHttpDate(row.text), std::optional(row.time)) << row.text;
  }
}

TEST(HttpDateTest, EveryDayOfAThousandYearsSurvives) {
  for (int64_t day = 0; day < 365'243; ++day) {
    const int64_t time = day * 86'400 + day % 86'400;
    ASSERT_EQ(parseHttpDate(formatHttpDate(time)), std::optional(time)) << time;
  }
}

TEST(HttpDateTest, TimesThatCannotBeWrittenAreMoved) {
  EXPECT_EQ(formatHttpDate(-1), Rows[0].text);
  EXPECT_EQ(formatHttpDate(std::numeric_limits<int64_t>::min()), Rows[0].text);
  EXPECT_EQ(formatHttpDate(253402300800), "Fri, 31 Dec 9999 23:59:59 GMT");
  EXPECT_EQ(formatHttpDate(std::numeric_limits<int64_t>::max()), "Fri, 31 Dec 9999 23:59:59 GMT");
}

TEST(HttpDateTest, LeapSecondIsTheNextSecond) {
  EXPECT_EQ(parseHttpDate("Sat, 31 Dec 2016 23:59:60 GMT"), std::optional<int64_t>(1483228800));
}

TEST(HttpDateTest, RefusesEverythingElse) {
  for (const char* text : {"",
                           "Sunday, 06-Nov-94 08:49:37 GMT",
                           "Sun Nov  6 08:49:37 1994",
                           "Mon, 06 Nov 1994 08:49:37 GMT",
                           "sun, 06 Nov 1994 08:49:37 GMT",
                           "Sun, 06 nov 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 08:49:37 UTC",
                           "Sun, 06 Nov 1994 08:49:37 GMT ",
                           " Sun, 06 Nov 1994 08:49:37 GMT",
                           "Sun, 6 Nov 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 24:00:00 GMT",
                           "Sun, 06 Nov 1994 08:60:37 GMT",
                           "Sun, 06 Nov 1994 08:49:61 GMT",
                           "Thu, 30 Feb 2023 00:00:00 GMT",
                           "Wed, 29 Feb 2023 00:00:00 GMT",
                           "Wed, 31 Dec 1969 23:59:59 GMT",
                           "Sun, 00 Nov 1994 08:49:37 GMT",
                           "Sun, -6 Nov 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 +8:49:37 GMT",
                           "Sun; 06 Nov 1994 08:49:37 GMT",
                           "Sun, 06 Nov 199x 08:49:37 GMT"}) {
    EXPECT_EQ(parseHttpDate(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace idempotency::http
