#include <array>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "source/key/key.h"
#include "test/support/allocation_counter.h"

namespace idempotency::key {
namespace {

// Keys that are accepted and lines that are refused at each stage.
const std::vector<std::string> Lines = {
    "\"8e03978e-40d5-43e8-bc93-6894a57f9324\"",
    "8e03978e-40d5-43e8-bc93-6894a57f9324",
    "\"8e03978e-40d5-43e8-bc93-6894a57f9324\";a=1;b=\"x\";c=:aGVsbG8=:;d=?1;e=%\"f%c3%bc\";f=@1;g="
    "tok",
    "\"" + std::string(255, 'k') + "\"",
    std::string(255, 'k'),
    "\"" + std::string(100000, 'k') + "\"",
    std::string(100000, 'k'),
    "\"" + std::string(100, '\\') + "\"",
    "\"0123456789abcdef\", \"0123456789abcdef\"",
    "\"0123456789abcdef",
    "\xff",
    "",
};

TEST(KeyAllocationTest, ParsingAllocatesNothing) {
  size_t accepted = 0;
  size_t refused = 0;
  for (const KeySyntax syntax : {KeySyntax::Strict, KeySyntax::Raw, KeySyntax::Either}) {
    for (const bool uuid_only : {false, true}) {
      for (const std::string& line : Lines) {
        const std::array<std::string_view, 1> lines = {line};
        resetAllocations();
        const KeyResult result = parseKey(lines, {.syntax = syntax, .uuid_only = uuid_only});
        const KeyResult copy = result;
        const size_t calls = allocations().calls;
        EXPECT_EQ(calls, 0) << line.substr(0, 60);
        ++(std::holds_alternative<Key>(copy) ? accepted : refused);
      }
    }
  }
  EXPECT_GE(accepted, 15);
  EXPECT_GE(refused, 15);
}

}  // namespace
}  // namespace idempotency::key
