#include "test/fingerprint/hostile_bodies.h"

#include <algorithm>
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "bench/json_bodies.h"
#include "source/fingerprint/fingerprint.h"
#include "test/support/allocation_counter.h"

namespace idempotency {
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

// What this thread alone took of the processor.
double cpuNanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// The fastest of some runs: others may disturb a run, nothing makes it faster.
double nanosecondsPerByte(const std::string& body, const FingerprintRules& rules) {
  double best = 1e18;
  for (int i = 0; i < 3; ++i) {
    const double start = cpuNanoseconds();
    (void)fingerprintOf(body, rules);
    best = std::min(best, (cpuNanoseconds() - start) / static_cast<double>(body.size()));
  }
  return best;
}

// Sixteen times the body may cost four times as much per byte (memory gets slower, sorting takes n
// log n); quadratic time would be sixteen times as much.
TEST(FingerprintTimeTest, CostPerByteHardlyGrowsWithTheBody) {
  const std::vector<HostileBody> small = hostileBodies(1 << 14);
  const std::vector<HostileBody> large = hostileBodies(1 << 18);
  for (size_t i = 0; i < small.size(); ++i) {
    for (const FingerprintRules& rules : allRules()) {
      const double before = nanosecondsPerByte(small[i].text, rules);
      const double after = nanosecondsPerByte(large[i].text, rules);
      EXPECT_LT(after, 4 * before + 10) << small[i].name;
    }
  }
}

TEST(FingerprintTimeTest, ManyPointersAreFoundWithoutTryingAll) {
  const auto rules_with = [](size_t count) {
    std::vector<JsonPointer> pointers;
    for (size_t i = 0; i < count; ++i) {
      pointers.push_back(*JsonPointer::parse("/none" + std::to_string(i)));
    }
    return FingerprintRules{.exclude_pointers = JsonPointerSet(pointers)};
  };
  const std::string body = hostileBodies(1 << 17)[11].text;
  const double before = nanosecondsPerByte(body, rules_with(10));
  const double after = nanosecondsPerByte(body, rules_with(10000));
  EXPECT_LT(after, 6 * before + 10);
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
}  // namespace idempotency
