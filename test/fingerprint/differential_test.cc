// Our reader against simdjson: both take and refuse the same texts.
#include <random>
#include <string>

#include "gtest/gtest.h"
#include <simdjson.h>

#include "test/fingerprint/canonicalize.h"

namespace idempotency {
namespace {

bool simdjsonTakes(const std::string& text) {
  static auto* parser = new simdjson::dom::parser();
  simdjson::dom::element element;
  return parser->parse(text).get(element) == simdjson::SUCCESS;
}

// Random texts near JSON: pieces of it, in any order.
std::string randomText(std::mt19937& random) {
  static const char* const pieces[] = {
      "{",  "}",   "[",     "]",       ",",    ":",    "\"a\"", "\"b\"",
      "1",  "-0",  "1.5",   "1e3",     "true", "null", " ",     "\n",
      "01", "1.",  "-",     "\"\\n\"", "\"\\", "\"",   "false", "\"\\u00e9\"",
      "\t", "nul", "\"é\"", "\x01",    "1e",   "+1",   ".5",    "\"\\u0041\""};
  std::string text;
  for (uint32_t count = 1 + random() % 8; count > 0; --count) {
    text += pieces[random() % std::size(pieces)];
  }
  return text;
}

// A random JSON text.
std::string randomJson(std::mt19937& random, int depth) {
  switch (random() % (depth > 4 ? 4 : 6)) {
    case 0:
      return std::to_string(static_cast<int32_t>(random()));
    case 1:
      return random() % 2 ? "true" : "null";
    case 2:
      return "\"" + std::string(random() % 5, 'x') + "\"";
    case 3:
      return std::to_string(random() % 1000) + ".5e" + std::to_string(random() % 10);
    case 4: {
      std::string text = "[";
      for (uint32_t count = random() % 4; count > 0; --count) {
        text += (text.size() > 1 ? "," : "") + randomJson(random, depth + 1);
      }
      return text + "]";
    }
    default: {
      std::string text = "{";
      for (uint32_t count = random() % 4; count > 0; --count) {
        text += std::string(text.size() > 1 ? "," : "") + "\"k" + std::to_string(count) +
                "\": " + randomJson(random, depth + 1);
      }
      return text + "}";
    }
  }
}

bool rejected(const std::string& canonical) {
  return canonical.starts_with("rejected");
}

TEST(DifferentialTest, TextsNearJsonAreTakenOrRefusedAlike) {
  const uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::string text = randomText(random);
    const std::string ours = canonicalize(text, NumberRule::Rounded);
    // A name twice is refused by us alone.
    const bool duplicate = ours.find("two members") != std::string::npos;
    EXPECT_EQ(!rejected(ours) || duplicate, simdjsonTakes(text))
        << text << " " << ours << " seed " << seed;
    taken += rejected(ours) ? 0 : 1;
  }
  EXPECT_GT(taken, 200) << "too few good texts to tell";
}

TEST(DifferentialTest, CanonicalFormMeansTheSame) {
  const uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  for (int round = 0; round < 5'000; ++round) {
    const std::string text = randomJson(random, 0);
    const std::string ours = canonicalize(text);
    ASSERT_FALSE(rejected(ours)) << text << " " << ours << " seed " << seed;
    EXPECT_TRUE(simdjsonTakes(ours)) << ours;
    EXPECT_EQ(canonicalize(ours), ours);
  }
}

}  // namespace
}  // namespace idempotency
