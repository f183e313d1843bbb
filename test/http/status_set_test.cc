#include "source/http/status_set.h"

#include <limits>

#include <gtest/gtest.h>

namespace idempotency::http {
namespace {

TEST(StatusSetTest, HoldsExactlyWhatWasAdded) {
  StatusSet set;
  EXPECT_TRUE(set.empty());
  set.addRange(100, 100);
  set.addRange(500, 599);
  EXPECT_FALSE(set.empty());
  for (int status = 100; status <= 599; ++status) {
    EXPECT_EQ(set.contains(status), status == 100 || status >= 500) << status;
  }
}

TEST(StatusSetTest, StatusesOutOfRangeAreInNoSet) {
  StatusSet set;
  set.addRange(100, 599);
  for (const int status :
       {-1, 0, 99, 600, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    EXPECT_FALSE(set.contains(status)) << status;
  }
}

TEST(StatusSetTest, FirstCommonIsTheLowest) {
  StatusSet a;
  StatusSet b;
  EXPECT_EQ(a.firstCommon(b), std::nullopt);
  a.addRange(400, 450);
  b.addRange(451, 500);
  EXPECT_EQ(a.firstCommon(b), std::nullopt);
  b.addRange(449, 449);
  EXPECT_EQ(a.firstCommon(b), 449);
}

TEST(StatusSetTest, Classes) {
  EXPECT_EQ(parseStatusClass("1xx"), 100);
  EXPECT_EQ(parseStatusClass("5xx"), 500);
  for (const char* text : {"", "xx", "0xx", "6xx", "5XX", "5x", "5xxx", "500", "50x", " 5xx"}) {
    EXPECT_EQ(parseStatusClass(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace idempotency::http
