// The small parts of the filter: rate, labels, hash, redirects, log limiter.
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "source/filter/stats/label_tally.h"
#include "source/filter/stats/tenant_labels.h"
#include "source/filter/stats/unsettled_gauges.h"
#include "source/protocol/key_hash.h"
#include "source/runtime/key_rate.h"
#include "source/runtime/log_limiter.h"
#include "source/runtime/redirects.h"

namespace idempotency::filter {
namespace {

using namespace std::chrono_literals;

const store::Deadline Start{1000h};

TEST(KeyRateTest, LetsThroughAsManyAsASecondHasAndThenOneByOne) {
  runtime::KeyRate rate(10);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(rate.take("acme", Start)) << i;
  }
  EXPECT_FALSE(rate.take("acme", Start));
  EXPECT_FALSE(rate.take("acme", Start + 99ms));
  EXPECT_TRUE(rate.take("acme", Start + 201ms));
  EXPECT_TRUE(rate.take("acme", Start + 202ms));
  EXPECT_FALSE(rate.take("acme", Start + 203ms));
}

TEST(KeyRateTest, TenantsDoNotShare) {
  runtime::KeyRate rate(1);
  EXPECT_TRUE(rate.take("a", Start));
  EXPECT_FALSE(rate.take("a", Start));
  EXPECT_TRUE(rate.take("b", Start));
}

TEST(KeyRateTest, TokenGivenBackCanBeUsedAgainButAddsNothing) {
  runtime::KeyRate rate(1);
  EXPECT_TRUE(rate.take("a", Start));
  rate.giveBack("a");
  rate.giveBack("a");
  EXPECT_TRUE(rate.take("a", Start));
  EXPECT_FALSE(rate.take("a", Start));
  rate.giveBack("stranger");
}

TEST(KeyRateTest, ManyTenantsAreForgottenButNotWhoIsOverHisRate) {
  runtime::KeyRate rate(2);
  EXPECT_TRUE(rate.take("busy", Start));
  EXPECT_TRUE(rate.take("busy", Start));
  for (int i = 0; i < 30'000; ++i) {
    EXPECT_TRUE(rate.take(std::to_string(i), Start));
  }
  EXPECT_FALSE(rate.take("busy", Start));
}

TEST(KeyRateTest, NoLimit) {
  runtime::KeyRate rate(std::nullopt);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(rate.take("a", Start));
  }
}

TEST(TenantLabelsTest, TenantGetsItsNameWhenItShowsUpOften) {
  TenantLabels labels;
  for (size_t i = 1; i < TenantLabels::EventsForAName; ++i) {
    EXPECT_EQ(labels.labelFor("acme"), "other");
  }
  EXPECT_EQ(labels.labelFor("acme"), "acme");
  EXPECT_EQ(labels.labelFor("acme"), "acme");
  EXPECT_EQ(labels.labelFor(""), "none");
}

TEST(TenantLabelsTest, NamesAreBounded) {
  TenantLabels labels;
  size_t named = 0;
  for (int tenant = 0; tenant < 300; ++tenant) {
    const std::string name = "tenant-" + std::to_string(tenant);
    for (int i = 0; i < 20; ++i) {
      labels.labelFor(name);
    }
    named += labels.labelFor(name) == name ? 1 : 0;
  }
  EXPECT_EQ(named, TenantLabels::MostNames);
  // A flood of strangers takes no name away.
  for (int i = 0; i < 50'000; ++i) {
    labels.labelFor("stranger-" + std::to_string(i));
  }
  EXPECT_EQ(labels.labelFor("tenant-0"), "tenant-0");
}

TEST(LabelTallyTest, FewEventsAreTheCallersAndTheRestIsKept) {
  LabelTally tally;
  for (uint32_t i = 0; i < LabelTally::FewEvents; ++i) {
    EXPECT_TRUE(tally.add("busy"));
  }
  EXPECT_FALSE(tally.add("busy"));
  EXPECT_FALSE(tally.add("busy"));
  EXPECT_TRUE(tally.add("idle"));
  const std::vector<LabelTally::Kept> kept = tally.take();
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].label, "busy");
  EXPECT_EQ(kept[0].events, 2U);
  EXPECT_TRUE(tally.take().empty()) << "once";
}

TEST(LabelTallyTest, EachIntervalBeginsAnew) {
  LabelTally tally;
  for (uint32_t i = 0; i < LabelTally::FewEvents; ++i) {
    EXPECT_TRUE(tally.add("x"));
  }
  EXPECT_FALSE(tally.nextInterval()) << "nothing is kept";
  for (uint32_t i = 0; i < LabelTally::FewEvents; ++i) {
    EXPECT_TRUE(tally.add("x"));
  }
  EXPECT_FALSE(tally.add("x"));
  EXPECT_TRUE(tally.nextInterval());
  EXPECT_TRUE(tally.nextInterval()) << "until it is taken";
  EXPECT_EQ(tally.take().size(), 1U);
  EXPECT_FALSE(tally.nextInterval());
}

TEST(KeyHashTest, TellsIdentitiesApartAndShowsNoKey) {
  const std::string hash = protocol::keyHash({"acme", "pay", "0123456789abcdef"});
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(hash, protocol::keyHash({"acme", "pay", "0123456789abcdef"}));
  EXPECT_NE(hash, protocol::keyHash({"acme", "pay", "0123456789abcdeg"}));
  EXPECT_NE(hash, protocol::keyHash({"acme2", "pay", "0123456789abcdef"}));
  EXPECT_NE(hash, protocol::keyHash({"acme", "refund", "0123456789abcdef"}));
  EXPECT_NE(protocol::keyHash({"ab", "c", "k"}), protocol::keyHash({"a", "bc", "k"}));
  EXPECT_EQ(hash.find("0123456789"), std::string::npos);
}

TEST(KeyHashTest, IsTheHmacThatThePageNames) {
  // printf 0123456789abcdef | openssl mac -macopt key:4:acmepay -digest sha256 HMAC
  const std::string first = "5fd4114beeec6854";
  EXPECT_EQ(protocol::keyHash({"acme", "pay", "0123456789abcdef"}), first);
  EXPECT_EQ(protocol::keyHash({"acme", "pay", "0123456789abcdef"}), first)
      << "with the key that is set";
  EXPECT_NE(protocol::keyHash({"other", "pay", "0123456789abcdef"}), first);
  EXPECT_EQ(protocol::keyHash({"acme", "pay", "0123456789abcdef"}), first) << "after another key";
}

runtime::HeldClaim held(protocol::Attempt attempt) {
  runtime::HeldClaim claim;
  claim.ref = {{"acme", "pay", "key"}, attempt};
  return claim;
}

TEST(RedirectsTest, ClaimIsTakenOnceByItsAttempt) {
  runtime::Redirects redirects([](const runtime::HeldClaim&) { FAIL() << "nothing is lost"; });
  EXPECT_TRUE(redirects.empty());
  redirects.give(held(7), Start);
  EXPECT_FALSE(redirects.empty());
  EXPECT_FALSE(redirects.take(8).has_value());
  EXPECT_FALSE(redirects.take(0).has_value());
  EXPECT_EQ(redirects.take(7)->ref.attempt, 7);
  EXPECT_FALSE(redirects.take(7).has_value());
  EXPECT_TRUE(redirects.empty());
}

TEST(RedirectsTest, ClaimThatNobodyTakesIsLost) {
  std::vector<protocol::Attempt> lost;
  runtime::Redirects redirects(
      [&](const runtime::HeldClaim& claim) { lost.push_back(claim.ref.attempt); });
  redirects.give(held(7), Start);
  EXPECT_EQ(redirects.onTime(Start), Start + 5s);
  EXPECT_TRUE(lost.empty());
  EXPECT_EQ(redirects.onTime(Start + 5s), store::Deadline::max());
  EXPECT_EQ(lost, std::vector<protocol::Attempt>{7});
  EXPECT_FALSE(redirects.take(7).has_value());
}

TEST(LogLimiterTest, OneLineForEachInterval) {
  runtime::LogLimiter limiter(10s);
  EXPECT_EQ(limiter.admit(Start), 0u);
  EXPECT_EQ(limiter.admit(Start + 1s), std::nullopt);
  EXPECT_EQ(limiter.admit(Start + 9s), std::nullopt);
  EXPECT_EQ(limiter.admit(Start + 10s), 2u);
  EXPECT_EQ(limiter.admit(Start + 20s), 0u);
}

TEST(LogLimiterTest, DroppedLinesAreMentionedIfThereAreAny) {
  EXPECT_EQ(runtime::droppedLines(0), "");
  EXPECT_EQ(runtime::droppedLines(31), " (31 more since the last line)");
}

// --- Unsettled records --------------------------------------------------------------------------

std::map<std::string, UnsettledGauges::Row> shown(UnsettledGauges& gauges) {
  std::map<std::string, UnsettledGauges::Row> rows;
  gauges.show(
      [&](std::string_view label, const UnsettledGauges::Row& sum) { rows.emplace(label, sum); });
  return rows;
}

UnsettledGauges::Row unsettled(std::string operation, uint64_t records, uint64_t oldest,
                               uint64_t dead_letters) {
  return {.operation = std::move(operation),
          .records = records,
          .oldest_seconds = oldest,
          .dead_letters = dead_letters};
}

TEST(UnsettledGaugesTest, BackendsOfAProcessAreAddedUp) {
  UnsettledGauges gauges;
  const int one = 1;
  const int two = 2;
  gauges.set(&one, {unsettled("pay", 2, 30, 1), unsettled("", 1, 5, 0)});
  gauges.set(&two, {unsettled("pay", 3, 20, 1)});
  EXPECT_EQ(shown(gauges)["pay"].records, 5U);
  EXPECT_EQ(shown(gauges)["pay"].oldest_seconds, 30U);
  EXPECT_EQ(shown(gauges)["pay"].dead_letters, 2U);
  EXPECT_EQ(shown(gauges)["none"].records, 1U);
  gauges.set(&one, {});
  EXPECT_EQ(shown(gauges)["pay"].records, 3U);
  EXPECT_EQ(shown(gauges)["none"].records, 0U) << "what was shown once is shown as 0";
}

TEST(UnsettledGaugesTest, LabelsAreLimited) {
  UnsettledGauges gauges;
  const int owner = 0;
  std::vector<UnsettledGauges::Row> rows;
  for (size_t i = 0; i < UnsettledGauges::MostNames + 5; ++i) {
    rows.push_back(unsettled("operation " + std::to_string(i), 1, 1, 0));
  }
  gauges.set(&owner, rows);
  EXPECT_EQ(shown(gauges).size(), UnsettledGauges::MostNames + 1);
  EXPECT_EQ(shown(gauges)["other"].records, 5U);
  EXPECT_EQ(shown(gauges)["operation 0"].records, 1U);
}

}  // namespace
}  // namespace idempotency::filter
