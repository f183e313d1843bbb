#include "source/protocol/fingerprint_match.h"

#include <string>

#include <gtest/gtest.h>

namespace idempotency::protocol {
namespace {

fingerprint::Fingerprint make(uint8_t version, uint8_t fill) {
  fingerprint::Fingerprint fingerprint;
  fingerprint.fill(fill);
  fingerprint[0] = version;
  return fingerprint;
}

std::string bytes(const fingerprint::Fingerprint& fingerprint) {
  return {fingerprint.begin(), fingerprint.end()};
}

std::optional<fingerprint::Fingerprint> mustNotBeCalled(uint8_t) {
  ADD_FAILURE() << "recomputed without need";
  return std::nullopt;
}

TEST(FingerprintMatchTest, SameVersionIsComparedAsItIs) {
  EXPECT_EQ(matchFingerprint(bytes(make(1, 7)), make(1, 7), mustNotBeCalled),
            FingerprintMatch::Same);
  EXPECT_EQ(matchFingerprint(bytes(make(1, 7)), make(1, 8), mustNotBeCalled),
            FingerprintMatch::Different);
  fingerprint::Fingerprint last = make(1, 7);
  last.back() = 0x80;
  EXPECT_EQ(matchFingerprint(bytes(make(1, 7)), last, mustNotBeCalled),
            FingerprintMatch::Different);
  EXPECT_EQ(matchFingerprint(bytes(last), last, mustNotBeCalled), FingerprintMatch::Same);
}

TEST(FingerprintMatchTest, OlderVersionIsRecomputed) {
  const auto recompute = [](uint8_t version) -> std::optional<fingerprint::Fingerprint> {
    EXPECT_EQ(version, 1);
    return make(1, 7);
  };
  EXPECT_EQ(matchFingerprint(bytes(make(1, 7)), make(2, 9), recompute), FingerprintMatch::Same);
  EXPECT_EQ(matchFingerprint(bytes(make(1, 6)), make(2, 9), recompute),
            FingerprintMatch::Different);
  // The rest being equal does not matter.
  EXPECT_EQ(matchFingerprint(bytes(make(1, 9)), make(2, 9), recompute),
            FingerprintMatch::Different);
}

TEST(FingerprintMatchTest, VersionThatThisBuildDoesNotKnowCannotBeVerified) {
  const auto none = [](uint8_t) { return std::optional<fingerprint::Fingerprint>(); };
  EXPECT_EQ(matchFingerprint(bytes(make(9, 7)), make(1, 7), none), FingerprintMatch::Unverifiable);
}

TEST(FingerprintMatchTest, BytesOfAnotherLengthCannotBeVerified) {
  for (const size_t length : {0u, 1u, 32u, 34u}) {
    EXPECT_EQ(matchFingerprint(std::string(length, '\1'), make(1, 1), mustNotBeCalled),
              FingerprintMatch::Unverifiable);
  }
}

}  // namespace
}  // namespace idempotency::protocol
