#include "source/cli/text_table.h"

#include "gtest/gtest.h"

namespace idempotency::cli {
namespace {

TEST(TextTableTest, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table({"A", "LONG", "C"});
  table.add({"wide cell", "b", "c"});
  table.add({"a", "b", ""});
  EXPECT_EQ(table.text(),
            "A          LONG  C\n"
            "wide cell  b     c\n"
            "a          b\n");
  EXPECT_EQ(table.rows(), 2);
}

TEST(TextTableTest, CharactersOfSeveralBytesTakeOneColumn) {
  TextTable table({"A", "B"});
  table.add({"\xc3\xa9\xe2\x82\xac", "x"});
  table.add({"abc", "y"});
  EXPECT_EQ(table.text(), "A    B\n\xc3\xa9\xe2\x82\xac   x\nabc  y\n");
}

TEST(TextTableTest, CutsBetweenCharacters) {
  EXPECT_EQ(cutToWidth("abc", 2), "ab");
  EXPECT_EQ(cutToWidth("abc", 3), "abc");
  EXPECT_EQ(cutToWidth("a\xe2\x82\xac\xc3\xa9", 2), "a\xe2\x82\xac");
  EXPECT_EQ(cutToWidth("abc", 0), "");
}

}  // namespace
}  // namespace idempotency::cli
