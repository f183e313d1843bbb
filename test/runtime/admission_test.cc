#include "source/runtime/admission.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::test {
namespace {

using Place = runtime::Admission::Place;

constexpr uint64_t MiB = 1 << 20;

protocol::LimitSettings limitsOf(uint32_t in_flight, uint64_t held_bytes) {
  protocol::LimitSettings limits;
  limits.in_flight = in_flight;
  limits.held_bytes = held_bytes;
  return limits;
}

TEST(AdmissionTest, NoMoreComeInThanAllowedAndAPlaceComesBackOnce) {
  runtime::Admission admission(limitsOf(2, 8 * MiB));
  Place first;
  Place second;
  Place third;
  EXPECT_EQ(admission.enter("a", nullptr, first), runtime::Refusal::None);
  EXPECT_EQ(admission.enter("b", nullptr, second), runtime::Refusal::None);
  EXPECT_EQ(admission.enter("c", nullptr, third), runtime::Refusal::InFlight);
  EXPECT_FALSE(third);
  first = Place();
  Place moved = std::move(first);
  EXPECT_EQ(admission.inFlight(), 1u);
  EXPECT_EQ(admission.enter("c", nullptr, third), runtime::Refusal::None);
  EXPECT_EQ(admission.enter("d", nullptr, moved), runtime::Refusal::InFlight);
}

TEST(AdmissionTest, WhoHoldsAClaimAlwaysComesIn) {
  runtime::Admission admission(limitsOf(1, 8 * MiB));
  const protocol::TenantShare share{1, 1, MiB};
  Place first;
  ASSERT_EQ(admission.enter("a", &share, first), runtime::Refusal::None);
  {
    const Place holder = admission.enterHolder("a", &share);
    EXPECT_EQ(admission.inFlight(), 2u);
  }
  EXPECT_EQ(admission.inFlight(), 1u);
  Place other;
  EXPECT_EQ(admission.enter("a", &share, other), runtime::Refusal::TenantInFlight);
}

TEST(AdmissionTest, ATenantTakesItsShareAndNotThatOfOthers) {
  runtime::Admission admission(limitsOf(4, 8 * MiB));
  const protocol::TenantShare share{2, 1, 3 * MiB};
  std::vector<Place> places(4);
  EXPECT_EQ(admission.enter("greedy", &share, places[0]), runtime::Refusal::None);
  EXPECT_EQ(admission.enter("greedy", &share, places[1]), runtime::Refusal::None);
  EXPECT_EQ(admission.enter("greedy", &share, places[2]), runtime::Refusal::TenantInFlight);
  EXPECT_EQ(admission.enter("other", &share, places[2]), runtime::Refusal::None);
  EXPECT_EQ(places[0].beginWait(), runtime::Refusal::None);
  EXPECT_EQ(places[0].beginWait(), runtime::Refusal::None) << "it waits already";
  EXPECT_EQ(places[1].beginWait(), runtime::Refusal::TenantWaiters);
  EXPECT_EQ(places[2].beginWait(), runtime::Refusal::None) << "another tenant";
  places[0].endWait();
  places[0].endWait();
  EXPECT_EQ(places[1].beginWait(), runtime::Refusal::None);
  places[1] = Place();
  EXPECT_EQ(admission.enter("greedy", &share, places[1]), runtime::Refusal::None);
  EXPECT_EQ(places[0].beginWait(), runtime::Refusal::None) << "who left waits no more";
}

TEST(AdmissionTest, BodiesOfRequestsLeaveAQuarterToResponses) {
  runtime::Admission admission(limitsOf(10, 8 * MiB));
  Place request;
  Place response;
  ASSERT_EQ(admission.enter("a", nullptr, request), runtime::Refusal::None);
  ASSERT_EQ(admission.enter("a", nullptr, response), runtime::Refusal::None);
  EXPECT_EQ(request.holdRequest(6 * MiB), runtime::Refusal::None);
  EXPECT_EQ(request.holdRequest(6 * MiB + 1), runtime::Refusal::Bytes);
  EXPECT_EQ(admission.heldBytes(), 6 * MiB) << "a refusal changes nothing";
  Place late;
  EXPECT_EQ(admission.enter("b", nullptr, late), runtime::Refusal::Bytes);
  EXPECT_TRUE(response.holdResponse(2 * MiB));
  EXPECT_FALSE(response.holdResponse(2 * MiB + 1));
  Place small = admission.enterHolder("b", nullptr);
  EXPECT_TRUE(small.holdResponse(runtime::Admission::SmallResponse)) << "always";
  EXPECT_FALSE(small.holdResponse(runtime::Admission::SmallResponse + 1));
  request.hold(0);
  EXPECT_TRUE(small.holdResponse(runtime::Admission::SmallResponse + 1));
  EXPECT_EQ(admission.enter("b", nullptr, late), runtime::Refusal::None);
}

TEST(AdmissionTest, EveryByteComesBackOnce) {
  runtime::Admission admission(limitsOf(10, 8 * MiB));
  const protocol::TenantShare share{5, 5, 3 * MiB};
  {
    Place first;
    Place second;
    ASSERT_EQ(admission.enter("a", &share, first), runtime::Refusal::None);
    ASSERT_EQ(admission.enter("a", &share, second), runtime::Refusal::None);
    EXPECT_EQ(first.holdRequest(2 * MiB), runtime::Refusal::None);
    EXPECT_EQ(second.holdRequest(2 * MiB), runtime::Refusal::TenantBytes);
    first.hold(0);
    EXPECT_EQ(second.holdRequest(2 * MiB), runtime::Refusal::None) << "what went on is not held";
    EXPECT_TRUE(first.holdResponse(MiB));
    const runtime::ByteBudget::Charge queued = admission.charge(100 * MiB);
    EXPECT_EQ(admission.heldBytes(), 103 * MiB) << "counted, and not refused";
    Place moved = std::move(second);
    second = Place();
    EXPECT_EQ(admission.heldBytes(), 103 * MiB);
  }
  EXPECT_EQ(admission.heldBytes(), 0u);
  EXPECT_EQ(admission.inFlight(), 0u);
}

TEST(AdmissionTest, AnEmptyPlaceRefusesNothing) {
  Place place;
  EXPECT_EQ(place.holdRequest(1 << 30), runtime::Refusal::None);
  EXPECT_TRUE(place.holdResponse(1 << 30));
  EXPECT_EQ(place.beginWait(), runtime::Refusal::None);
  place.hold(5);
}

TEST(AdmissionTest, WorkersAtOnceNeverPassTheLimits) {
  runtime::Admission admission(limitsOf(6, 8 * MiB));
  const protocol::TenantShare share{3, 1, 3 * MiB};
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 4; ++worker) {
    workers.emplace_back([&, worker] {
      const std::string tenant = "tenant-" + std::to_string(worker % 2);
      for (int i = 0; i < 20'000; ++i) {
        Place place;
        if (admission.enter(tenant, &share, place) != runtime::Refusal::None) {
          continue;
        }
        if (place.holdRequest(MiB) == runtime::Refusal::None) {
          ASSERT_LE(admission.heldBytes(), 8 * MiB);
        }
        std::ignore = place.beginWait();
        if (i % 3 == 0) {
          place.hold(0);
        }
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  EXPECT_EQ(admission.inFlight(), 0u);
  EXPECT_EQ(admission.heldBytes(), 0u);
}

TEST(TenantSharesTest, OnlyTenantsThatAreHereAreRemembered) {
  runtime::TenantShares shares;
  std::vector<runtime::TenantShares::Entry*> entries;
  for (int i = 0; i < 1000; ++i) {
    entries.push_back(shares.enter("tenant-" + std::to_string(i), 1));
    ASSERT_NE(entries.back(), nullptr);
  }
  EXPECT_EQ(shares.enter("tenant-7", 1), nullptr);
  EXPECT_EQ(shares.size(), 1000u);
  for (runtime::TenantShares::Entry* entry : entries) {
    shares.leave(entry);
  }
  EXPECT_EQ(shares.size(), 0u);
}

}  // namespace
}  // namespace idempotency::test
