#include "test/fingerprint/hostile_bodies.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "bench/json_bodies.h"
#include "source/fingerprint/fingerprint.h"
#include "test/support/allocation_counter.h"

namespace idempotency::fingerprint {
namespace {

JsonPointerSet somePointers() {
  JsonPointerSet pointers;
  for (const char* text : {"/a", "/b", "/0", "/1/a", "/b/b/b", "/99999999", "/00000001"}) {
    pointers.push_back(*JsonPointer::parse(text));
  }
  return pointers;
}

std::vector<FingerprintRules> allRules() {
  return {{},
          {.exclude_pointers = somePointers()},
          {.mode = FingerprintMode::Selected, .pointers = somePointers()}};
}

FingerprintResult fingerprintOf(std::span<const std::string_view> body,
                                const FingerprintRules& rules) {
  return *computeFingerprint(
      {.method = "POST", .path = "/", .content_type = "application/json", .body = body}, rules);
}

FingerprintResult fingerprintOf(std::string_view body, const FingerprintRules& rules) {
  return fingerprintOf({&body, 1}, rules);
}

std::vector<std::string_view> slicesOf(std::string_view body) {
  std::vector<std::string_view> slices;
  for (size_t i = 0; i < body.size(); i += 16384) {
    slices.push_back(body.substr(i, 16384));
  }
  return slices;
}

// Beyond the body itself, which is the caller's: at most three times as much.
void expectMemory(const std::string& body, const FingerprintRules& rules) {
  const std::vector<std::string_view> slices = slicesOf(body);
  resetAllocations();
  (void)fingerprintOf(slices, rules);
  EXPECT_LE(allocations().peak_bytes, 3 * body.size());
}

TEST(FingerprintMemoryTest, HostileBodiesTakeAtMostThreeTimesTheirSize) {
  for (const size_t size : {size_t{2048}, size_t{65536}}) {
    for (const HostileBody& body : hostileBodies(size)) {
      for (const FingerprintRules& rules : allRules()) {
        SCOPED_TRACE(body.name);
        expectMemory(body.text, rules);
      }
    }
  }
  for (const HostileBody& body : hostileBodies(1 << 20)) {
    SCOPED_TRACE(body.name);
    expectMemory(body.text, {});
  }
}

TEST(FingerprintMemoryTest, UsualBodiesTakeAtMostThreeTimesTheirSize) {
  for (const size_t size : {size_t{200}, size_t{2048}, size_t{65536}, size_t{1} << 20}) {
    for (const FingerprintRules& rules : allRules()) {
      expectMemory(orderBody(size), rules);
      expectMemory(prettyOrderBody(size), rules);
    }
  }
}

TEST(FingerprintMemoryTest, ShortBodiesTakeNone) {
  const std::string body = orderBody(2048);
  const FingerprintRules rules;
  resetAllocations();
  (void)fingerprintOf(body, rules);
  EXPECT_EQ(allocations().calls, 0U);
}

// Quadratic time would take hours here: the test's time limit tells. Nothing is measured.
TEST(FingerprintTimeTest, LargeHostileBodiesEndSoon) {
  for (const HostileBody& body : hostileBodies(1 << 20)) {
    for (const FingerprintRules& rules : allRules()) {
      EXPECT_EQ(fingerprintOf(body.text, rules).fingerprint[0], FingerprintVersion) << body.name;
    }
  }
}

TEST(FingerprintTimeTest, ManyPointersAreFoundWithoutTryingAll) {
  std::vector<JsonPointer> pointers;
  for (size_t i = 0; i < 20'000; ++i) {
    pointers.push_back(*JsonPointer::parse("/none" + std::to_string(i)));
  }
  const FingerprintRules rules{.exclude_pointers = JsonPointerSet(pointers)};
  for (const HostileBody& body : hostileBodies(1 << 20)) {
    EXPECT_EQ(fingerprintOf(body.text, rules).fingerprint[0], FingerprintVersion) << body.name;
  }
}

// Hostile bodies are what they are meant to be: most are JSON.
TEST(HostileBodiesTest, AreReadOrRejectedForAReason) {
  size_t canonical = 0;
  for (const HostileBody& body : hostileBodies(4000)) {
    canonical += fingerprintOf(body.text, {}).body_form == BodyForm::CanonicalJson ? 1 : 0;
    EXPECT_NE(fingerprintOf(body.text, {}).rejection, JsonRejection::TooLarge) << body.name;
    EXPECT_GT(body.text.size(), 2800U) << body.name;
    EXPECT_LE(body.text.size(), 4000U) << body.name;
  }
  EXPECT_EQ(canonical, hostileBodies(4000).size() - 6);
}

}  // namespace
}  // namespace idempotency::fingerprint
