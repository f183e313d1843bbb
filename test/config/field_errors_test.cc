#include "source/config/field_errors.h"

#include <gtest/gtest.h>

namespace idempotency::config {
namespace {

TEST(FieldErrorsTest, EmptyIsOk) {
  EXPECT_TRUE(FieldErrors().empty());
  EXPECT_TRUE(FieldErrors().status().ok());
}

TEST(FieldErrorsTest, JoinsWhatWasAdded) {
  FieldErrors errors;
  errors.add("a.b", "3", "1 to 2");
  FieldErrors others;
  others.add("c", "must not be empty");
  errors.append(others);
  EXPECT_EQ(std::string(errors.status().message()),
            "a.b: got 3; expected 1 to 2 | c: must not be empty");
}

TEST(FieldErrorsTest, QuotedTextIsHarmlessAndShort) {
  EXPECT_EQ(quoteForError("a b"), "\"a b\"");
  EXPECT_EQ(quoteForError("a\n\"\\\x7f\xc3"), "\"a\\x0a\\x22\\x5c\\x7f\\xc3\"");
  EXPECT_EQ(quoteForError(std::string(64, 'x')), "\"" + std::string(64, 'x') + "\"");
  EXPECT_EQ(quoteForError(std::string(65, 'x')), "\"" + std::string(64, 'x') + "\"…");
}

TEST(FieldErrorsTest, Paths) {
  EXPECT_EQ(joinPath("", "store"), "store");
  EXPECT_EQ(joinPath("store", "sqlite"), "store.sqlite");
  EXPECT_EQ(indexPath("tenant.sources", 1), "tenant.sources[1]");
}

}  // namespace
}  // namespace idempotency::config
