#include "source/fingerprint/json_escape.h"

#include <string>

#include <gtest/gtest.h>

#include "test/fingerprint/canonicalize.h"

namespace idempotency::fingerprint {
namespace {

TEST(JsonEscapeTest, ControlsHaveTheirShortestForm) {
  EXPECT_EQ(canonicalString(std::string_view("\0\b\t\n\v\f\r\x1f", 8)),
            "\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f");
}

TEST(JsonEscapeTest, OnlyQuotesAndBackslashesAreEscapedBesides) {
  EXPECT_EQ(canonicalString("a\"b\\c/d\x7f\xc3\xa9"), "a\\\"b\\\\c/d\x7f\xc3\xa9");
}

TEST(JsonEscapeTest, WhatIsWrittenIsCanonical) {
  for (int byte = 0; byte < 0x80; ++byte) {
    const std::string json = '"' + canonicalString(std::string(1, static_cast<char>(byte))) + '"';
    EXPECT_EQ(canonicalize(json), json);
  }
}

}  // namespace
}  // namespace idempotency::fingerprint
