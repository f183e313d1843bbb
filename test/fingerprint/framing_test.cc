#include "source/fingerprint/framing.h"

#include <array>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

using Part = std::pair<PartKind, std::string>;
using Parts = std::vector<Part>;

Sha256Digest hashed(const Parts& parts) {
  PartHasher hasher;
  for (const auto& [kind, bytes] : parts) {
    hasher.add(kind, bytes);
  }
  return hasher.finish().value();
}

// The format, written down a second time.
std::string framed(const Parts& parts) {
  std::string bytes;
  for (const auto& [kind, content] : parts) {
    bytes += static_cast<char>(kind);
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes += static_cast<char>(content.size() >> shift);
    }
    bytes += content;
  }
  return bytes;
}

// Reads that format back: what can be read back was not mixed up.
std::optional<Parts> unframed(std::string_view bytes) {
  Parts parts;
  while (!bytes.empty()) {
    if (bytes.size() < 9) {
      return std::nullopt;
    }
    uint64_t size = 0;
    for (size_t i = 1; i < 9; ++i) {
      size = size << 8 | static_cast<uint8_t>(bytes[i]);
    }
    if (bytes.size() - 9 < size) {
      return std::nullopt;
    }
    parts.emplace_back(static_cast<PartKind>(bytes[0]), bytes.substr(9, size));
    bytes.remove_prefix(9 + size);
  }
  return parts;
}

Sha256Digest sha256(std::string_view bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.finish().value();
}

// Parts that look like pieces of other parts, of sizes around those where the hasher works
// differently.
class RandomParts {
public:
  Parts next() {
    Parts parts(random_() % 5);
    for (Part& part : parts) {
      part = {Kinds[random_() % Kinds.size()], content()};
    }
    return parts;
  }

private:
  static constexpr std::array Kinds = {PartKind::Method, PartKind::HeaderName,
                                       PartKind::HeaderValue, PartKind::BodyBytes,
                                       PartKind::SelectedAbsent};

  std::string content() {
    switch (random_() % 8) {
      case 0:
        return "";
      case 1:
        return std::string(1, '\0');
      case 2:
        return framed({{Kinds[random_() % Kinds.size()], "x"}});
      case 3:
        return framed({{Kinds[random_() % Kinds.size()], ""}}) + "y";
      case 4:
        return std::string(8, '\0');
      case 5:
        return std::string(random_() % 1200, 'z');
      case 6:
        return std::string(250 + random_() % 12, 'z');
      default:
        return "x";
    }
  }

  std::mt19937 random_{/*seed=*/8941};
};

TEST(FramingTest, PartsAreKindSizeAndBytes) {
  EXPECT_EQ(hashed({}), sha256(""));
  EXPECT_EQ(hashed({{PartKind::Method, "POST"}}),
            sha256(std::string_view("\x02\0\0\0\0\0\0\0\4POST", 13)));
  RandomParts random;
  for (int i = 0; i < 20000; ++i) {
    const Parts parts = random.next();
    ASSERT_EQ(hashed(parts), sha256(framed(parts)));
  }
}

TEST(FramingTest, FramedPartsCanBeReadBack) {
  RandomParts random;
  for (int i = 0; i < 20000; ++i) {
    const Parts parts = random.next();
    ASSERT_EQ(unframed(framed(parts)), parts);
  }
}

TEST(FramingTest, DifferentPartsHashDifferently) {
  RandomParts random;
  std::set<Parts> all;
  std::set<Sha256Digest> digests;
  for (int i = 0; i < 50000; ++i) {
    const Parts parts = random.next();
    all.insert(parts);
    digests.insert(hashed(parts));
  }
  EXPECT_EQ(all.size(), digests.size());
  EXPECT_GT(all.size(), 10000U);
}

TEST(FramingTest, WhereBytesAreCutDoesNotMatter) {
  const std::string bytes(3000, 'b');
  const Sha256Digest want = hashed({{PartKind::Path, "/"}, {PartKind::BodyBytes, bytes}});
  for (const size_t step : {1U, 7U, 255U, 256U, 511U, 512U, 513U, 2000U}) {
    PartHasher hasher;
    hasher.add(PartKind::Path, "/");
    hasher.begin(PartKind::BodyBytes, bytes.size());
    for (size_t done = 0; done < bytes.size(); done += step) {
      hasher.append(std::string_view(bytes).substr(done, step));
    }
    EXPECT_EQ(hasher.finish().value(), want) << step;
  }
}

}  // namespace
}  // namespace idempotency::fingerprint
