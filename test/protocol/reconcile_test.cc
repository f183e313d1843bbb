#include "source/protocol/reconcile.h"

#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace idempotency::protocol {
namespace {

using namespace std::chrono_literals;

SeenAnswer answer(int status, bool has_body = true) {
  SeenAnswer seen;
  seen.came = true;
  seen.status = status;
  seen.has_body = has_body;
  return seen;
}

SeenAnswer declares(DeclaredOutcome declared, int status = 200) {
  SeenAnswer seen = answer(status);
  seen.declared = declared;
  return seen;
}

std::string_view ruleFor(const SeenAnswer& seen, const ReconcileSettings& settings = {}) {
  return judgeAnswer(settings, seen).name;
}

TEST(ReconcileTest, AResultIsA200Or201WithABody) {
  EXPECT_EQ(judgeAnswer({}, answer(200)).finding, Finding::Ran);
  EXPECT_EQ(judgeAnswer({}, answer(201)).finding, Finding::Ran);
  EXPECT_EQ(ruleFor(answer(200)), "result");
  EXPECT_EQ(ruleFor(answer(200, false)), "other");
  EXPECT_EQ(ruleFor(answer(201, false)), "other");
}

// A settled record cannot be unsettled: only what is listed settles it.
TEST(ReconcileTest, NoOtherStatusSettlesARecord) {
  for (int status = 100; status <= 599; ++status) {
    for (const bool has_body : {false, true}) {
      if (has_body && (status == 200 || status == 201)) {
        continue;
      }
      EXPECT_EQ(judgeAnswer({}, answer(status, has_body)).finding, Finding::AskAgain) << status;
    }
  }
  EXPECT_EQ(judgeAnswer({}, SeenAnswer()).finding, Finding::AskAgain);
  EXPECT_EQ(ruleFor(SeenAnswer()), "no_answer");
}

TEST(ReconcileTest, AbsenceIsFinalOnlyIfTheConfigSaysSo) {
  SeenAnswer absent = answer(404, false);
  EXPECT_EQ(ruleFor(absent), "absent");
  ReconcileSettings final;
  final.absent_is_final = true;
  EXPECT_EQ(judgeAnswer(final, absent).finding, Finding::NotRun);

  ReconcileSettings late;
  late.absent_final_after = 60s;
  absent.claim_age = 60s - 1ms;
  EXPECT_EQ(judgeAnswer(late, absent).finding, Finding::AskAgain);
  absent.claim_age = 60s;
  EXPECT_EQ(judgeAnswer(late, absent).finding, Finding::NotRun);
  for (int status = 100; status <= 599; ++status) {
    SeenAnswer other = answer(status);
    other.claim_age = 1h;
    if (status != 404) {
      EXPECT_NE(judgeAnswer(final, other).finding, Finding::NotRun) << status;
      EXPECT_NE(judgeAnswer(late, other).finding, Finding::NotRun) << status;
    }
  }
}

TEST(ReconcileTest, TheDeclarationDecidesWhateverTheStatus) {
  ReconcileSettings final;
  final.absent_is_final = true;
  for (const int status : {200, 202, 204, 402, 404, 409, 500, 503}) {
    const auto finding = [&](DeclaredOutcome declared) {
      return judgeAnswer(final, declares(declared, status)).finding;
    };
    EXPECT_EQ(finding(DeclaredOutcome::Completed), Finding::Ran) << status;
    EXPECT_EQ(finding(DeclaredOutcome::NotRun), Finding::NotRun) << status;
    EXPECT_EQ(finding(DeclaredOutcome::Retryable), Finding::NotRun) << status;
    EXPECT_EQ(finding(DeclaredOutcome::Unknown), Finding::AskAgain) << status;
    EXPECT_EQ(finding(DeclaredOutcome::Invalid), Finding::AskAgain) << status;
  }
}

TEST(ReconcileTest, AResultThatCannotBeStoredIsAskedForAgain) {
  SeenAnswer seen = answer(200);
  seen.usable = false;
  EXPECT_EQ(ruleFor(seen), "unusable");
  seen = declares(DeclaredOutcome::Completed, 402);
  seen.usable = false;
  EXPECT_EQ(ruleFor(seen), "unusable");
  // What needs no result is not affected.
  seen = declares(DeclaredOutcome::NotRun);
  seen.usable = false;
  EXPECT_EQ(ruleFor(seen), "declared_not_run");
  seen = answer(409);
  seen.usable = false;
  EXPECT_EQ(ruleFor(seen), "still_running");
}

TEST(ReconcileTest, AProxyDoesNotSpeakForTheService) {
  ReconcileSettings final;
  final.absent_is_final = true;
  for (const ProxyEvidence proxy : {ProxyEvidence::InDoubt, ProxyEvidence::NotSent}) {
    SeenAnswer absent = answer(404);
    absent.proxy = proxy;
    EXPECT_EQ(ruleFor(absent, final), "proxy_made");
    EXPECT_EQ(judgeAnswer(final, absent).finding, Finding::AskAgain);
  }
  // A proxy that asked twice passes the service's own answer on.
  SeenAnswer absent = answer(404);
  absent.proxy = ProxyEvidence::Retried;
  EXPECT_EQ(judgeAnswer(final, absent).finding, Finding::NotRun);
}

TEST(ReconcileTest, OnlyTheServiceItselfAnswers) {
  EXPECT_TRUE(judgeAnswer({}, answer(202)).answered);
  EXPECT_TRUE(judgeAnswer({}, answer(409)).answered);
  EXPECT_TRUE(judgeAnswer({}, answer(404)).answered);
  EXPECT_FALSE(judgeAnswer({}, answer(401)).answered);
  EXPECT_FALSE(judgeAnswer({}, answer(503)).answered);
  EXPECT_FALSE(judgeAnswer({}, SeenAnswer()).answered);
}

TEST(ReconcileTest, TimeBetweenQuestionsDoublesUpToALimit) {
  ReconcileSettings settings;
  settings.interval = 10s;
  settings.max_interval = 60s;
  EXPECT_EQ(retryDelay(settings, 0, 0), 10s);
  EXPECT_EQ(retryDelay(settings, 1, 0), 10s);
  EXPECT_EQ(retryDelay(settings, 2, 0), 20s);
  EXPECT_EQ(retryDelay(settings, 3, 0), 40s);
  EXPECT_EQ(retryDelay(settings, 4, 0), 60s);
  EXPECT_EQ(retryDelay(settings, UINT32_MAX, 0), 60s);
  EXPECT_EQ(retryDelay(settings, 2, 0.5), 18s);
  EXPECT_GT(retryDelay(settings, 2, 0.999), 16s);
  settings.interval = settings.max_interval = 24h;
  EXPECT_EQ(retryDelay(settings, 1000, 0), 24h);
}

std::string page() {
  std::ifstream file("docs/reconcile.md");
  EXPECT_TRUE(file.good()) << "docs/reconcile.md";
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ReconcileTest, PageHasARowForEveryRule) {
  const std::string text = page();
  size_t last = 0;
  for (const AnswerRule& rule : answerRules()) {
    const std::string row = fmt::format("| `{}` | {} |", rule.name, name(rule.finding));
    const size_t place = text.find(row);
    ASSERT_NE(place, std::string::npos) << row;
    EXPECT_GT(place, last) << rule.name << " is not in the order in which rules are tried";
    EXPECT_FALSE(rule.source.empty());
    last = place;
  }
}

}  // namespace
}  // namespace idempotency::protocol
