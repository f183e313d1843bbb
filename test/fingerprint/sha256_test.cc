#include "source/fingerprint/sha256.h"

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

std::string hex(const Sha256Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

std::string hashOf(std::string_view bytes) {
  Sha256 sha;
  sha.update(bytes);
  return hex(sha.finish().value());
}

// FIPS 180-4, examples.
constexpr std::string_view OfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::string_view OfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256Test, GivesPublishedDigests) {
  EXPECT_EQ(hashOf(""), OfNothing);
  EXPECT_EQ(hashOf("abc"), OfAbc);
  EXPECT_EQ(hashOf(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesGiveTheSameAsTheWhole) {
  Sha256 sha;
  sha.update("a");
  sha.update("");
  sha.update("bc");
  EXPECT_EQ(hex(sha.finish().value()), OfAbc);
}

TEST(Sha256Test, TwoAtATimeDoNotMix) {
  Sha256 outer;
  outer.update("a");
  EXPECT_EQ(hashOf(""), OfNothing);
  outer.update("bc");
  EXPECT_EQ(hex(outer.finish().value()), OfAbc);
}

TEST(Sha256Test, OneThatWasNotFinishedLeavesNothingBehind) {
  {
    Sha256 sha;
    sha.update("left over");
  }
  EXPECT_EQ(hashOf("abc"), OfAbc);
}

TEST(Sha256Test, FinishesOnce) {
  Sha256 sha;
  EXPECT_TRUE(sha.finish().has_value());
  EXPECT_FALSE(sha.finish().has_value());
}

TEST(Sha256Test, ThreadsHaveTheirOwn) {
  Sha256 here;
  here.update("a");
  std::string there;
  std::thread([&there] { there = hashOf("abc"); }).join();
  here.update("bc");
  EXPECT_EQ(there, OfAbc);
  EXPECT_EQ(hex(here.finish().value()), OfAbc);
}

}  // namespace
}  // namespace idempotency::fingerprint
