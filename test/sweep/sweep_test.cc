// Each flow of requests, with one fault at the store's first step, then at its second, and so on
// until a run meets no fault any more; for each kind of fault. After each run the promise is
// checked.
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "test/sweep/scene.h"

namespace idempotency::test {
namespace {

constexpr char Key[] = "sweep-key-0000000";
constexpr char Body[] = R"({"amount": 1})";
constexpr char OtherBody[] = R"({"amount": 2})";

// --- Faults

struct Fault {
  const char* name;
  StepFate fate;
  int steps = 1;               // How many steps it lasts.
  int answer_after_ticks = 0;  // For answers that come late.
  bool clients_leave = false;  // When it strikes.
  bool harmless = true;        // See Scene::end().
};

constexpr int Never = 1'000'000;

const std::vector<Fault> Faults = {
    {.name = "Refused", .fate = StepFate::Refused},
    {.name = "RefusedThrice", .fate = StepFate::Refused, .steps = 3},
    {.name = "NotSentInTime", .fate = StepFate::NotSent},
    {.name = "AnswerLost", .fate = StepFate::AnswerLost},
    {.name = "AnswersLostThrice", .fate = StepFate::AnswerLost, .steps = 3},
    {.name = "RequestLost", .fate = StepFate::RequestLost},
    {.name = "EffectAfterDoubt", .fate = StepFate::EffectLater},
    {.name = "NotAnsweredInTime", .fate = StepFate::Unanswered},
    {.name = "LostUnheard", .fate = StepFate::LostUnheard},
    {.name = "LateButLeaseLives", .fate = StepFate::AnsweredLate, .answer_after_ticks = 16},
    // A process that stood still: others take its claim for dead.
    {.name = "LateBeyondTheLease",
     .fate = StepFate::AnsweredLate,
     .answer_after_ticks = 2 * Scene::TicksOfLease,
     .harmless = false},
    {.name = "AnsweredAfterTheClientsLeft",
     .fate = StepFate::AnsweredLate,
     .answer_after_ticks = 4,
     .clients_leave = true},
    {.name = "InDoubtAfterTheClientsLeft", .fate = StepFate::Unanswered, .clients_leave = true},
    {.name = "RefusedAfterTheClientsLeft", .fate = StepFate::NotSent, .clients_leave = true},
    {.name = "AwayForGood", .fate = StepFate::Refused, .steps = Never, .harmless = false},
    {.name = "InDoubtForGood", .fate = StepFate::AnswerLost, .steps = Never, .harmless = false},
};

// --- Flows

struct Flow {
  std::string name;
  std::function<void(Scene&)> play;
  std::vector<uint32_t> statuses;  // Without a fault, in the order of the ends; empty: any.
  Scene::Options options = {};
  bool harmless = true;
};

void begin(Scene& scene, UpstreamFate fate, int upstream_ticks = 1, int patience = -1,
           const char* body = Body) {
  scene.start({.key = Key,
               .body = body,
               .fate = fate,
               .upstream_steps = upstream_ticks,
               .patience_steps = patience});
}

// One after another, each until its end.
std::function<void(Scene&)> inTurn(std::vector<UpstreamFate> fates) {
  return [fates = std::move(fates)](Scene& scene) {
    for (const UpstreamFate fate : fates) {
      begin(scene, fate);
      scene.finishSessions();
    }
  };
}

// A second request comes while the first one runs.
std::function<void(Scene&)> together(UpstreamFate first, const char* second_body = Body) {
  return [first, second_body](Scene& scene) {
    begin(scene, first, 6);
    scene.ticks(4);
    begin(scene, UpstreamFate::Answers, 1, -1, second_body);
    scene.finishSessions();
  };
}

// The client goes after so many ticks, and comes again.
std::function<void(Scene&)> leaving(UpstreamFate fate, int patience) {
  return [fate, patience](Scene& scene) {
    begin(scene, fate, 2, patience);
    scene.ticks(patience + 2);
    begin(scene, UpstreamFate::Answers);
    scene.finishSessions();
  };
}

// Envoy itself answers after so many ticks, and the client comes again.
std::function<void(Scene&)> cutting(UpstreamFate fate, int ticks) {
  return [fate, ticks](Scene& scene) {
    scene.start({.key = Key, .body = Body, .fate = fate, .upstream_steps = 2, .cut_steps = ticks});
    scene.finishSessions();
    begin(scene, UpstreamFate::Answers);
    scene.finishSessions();
  };
}

// The config goes away after so many ticks.
std::function<void(Scene&)> reloading(int ticks) {
  return [ticks](Scene& scene) {
    begin(scene, UpstreamFate::Answers, 2);
    scene.ticks(ticks);
    scene.reload();
    begin(scene, UpstreamFate::Answers);
    scene.finishSessions();
  };
}

// The request does not come again: nobody waits for it longer than five seconds.
void loseARedirect(Scene& scene) {
  begin(scene, UpstreamFate::RedirectsAway);
  scene.ticks(5'000 / Scene::Tick.count() + Scene::TicksOfLease);
  begin(scene, UpstreamFate::Answers);
  scene.finishSessions();
}

void runLongerThanTheLease(Scene& scene) {
  begin(scene, UpstreamFate::Answers, 3 * Scene::TicksOfLease);
  scene.ticks(2 * Scene::TicksOfLease);
  begin(scene, UpstreamFate::Answers);
  scene.finishSessions();
}

void manyClientsOfManyKeys(Scene& scene) {
  for (int i = 0; i < 6; ++i) {
    scene.start({.key = fmt::format("sweep-key-000000{}", i / 2),
                 .body = Body,
                 .fate = i % 4 == 0 ? UpstreamFate::Declines : UpstreamFate::Answers,
                 .upstream_steps = 2,
                 .patience_steps = i == 5 ? 3 : -1});
  }
  scene.finishSessions();
}

const Scene::Options Waits = {.policy = R"(, "in_flight": {"action": "WAIT", "wait": "0.4s"})"};
const Scene::Options Caches = {.cache = true};
const Scene::Options Retries = {.retry_lease = true};

std::vector<Flow> flows() {
  using enum UpstreamFate;
  std::vector<Flow> all = {
      {"RunsThenReplays", inTurn({Answers, Answers}), {200, 200}},
      {"RunsThenReplaysFromMemory", inTurn({Answers, Answers, Answers}), {200, 200, 200}, Caches},
      {"DeclinedThenRunsAgain", inTurn({Declines, Answers, Answers}), {503, 200, 200}},
      {"DeclinedTwice", inTurn({Declines, Declines, Answers}), {503, 503, 200}},
      {"ForbiddenThenRuns", inTurn({Forbids, Answers}), {401, 200}},
      {"NotReachedThenRuns", inTurn({NotReached, Answers}), {503, 200}},
      {"ReclaimedNotReachedThenRuns", inTurn({Declines, NotReached, Answers}), {503, 503, 200}},
      {"TimesOutThenUnknown", inTurn({TimesOut, Answers, Answers}), {504, 409, 409}},
      {"BreaksOffThenUnknown", inTurn({BreaksOff, Answers}), {502, 409}},
      {"LongAnswerThenTombstone", inTurn({AnswersAtLength, Answers}), {200, 409}},
      {"Redirected", inTurn({Redirects, Answers}), {200, 200}},
      {"RedirectLost", loseARedirect, {0, 409}},
      {"DuplicateWhileItRuns", together(Answers), {409, 200}},
      {"DuplicateWhileItIsDeclined", together(Declines), {409, 503}},
      {"DuplicateWhileItIsRedirected", together(Redirects), {409, 200}},
      {"ReusedWhileItRuns", together(Answers, OtherBody), {422, 200}},
      {"WaitsForIt", together(Answers), {200, 200}, Waits},
      {"WaitsForOneThatIsDeclined", together(Declines), {503, 200}, Waits},
      {"WaitsForOneThatTimesOut", together(TimesOut), {504, 409}, Waits},
      {"WaitsWithReusedKey", together(Answers, OtherBody), {422, 200}, Waits},
      {"LongerThanTheLease", runLongerThanTheLease, {409, 200}},
      {"LongerThanTheLeaseWithRetry", runLongerThanTheLease, {409, 200}, Retries},
      {"RunsThenReplaysWithRetry", inTurn({Answers, Answers}), {200, 200}, Retries},
      {"TimesOutWithRetry", inTurn({TimesOut, Answers}), {504, 409}, Retries},
      {"ManyClientsOfManyKeys", manyClientsOfManyKeys, {}},
      {"ManyClientsWait", manyClientsOfManyKeys, {}, Waits},
  };
  for (int ticks = 0; ticks <= 8; ++ticks) {
    all.push_back({fmt::format("LeavesAfter{}", ticks), leaving(Answers, ticks), {}});
    all.push_back(
        {fmt::format("LeavesALongAnswerAfter{}", ticks), leaving(AnswersAtLength, ticks), {}});
    all.push_back({fmt::format("LeavesARedirectAfter{}", ticks), leaving(Redirects, ticks), {}});
    all.push_back(
        {fmt::format("LeavesABrokenAnswerAfter{}", ticks), leaving(BreaksOff, ticks), {}});
    all.push_back({fmt::format("CutAfter{}", ticks), cutting(Answers, ticks), {}});
    all.push_back(
        {fmt::format("LongAnswerCutAfter{}", ticks), cutting(AnswersAtLength, ticks), {}});
    all.push_back({fmt::format("ReloadAfter{}", ticks), reloading(ticks), {}, {}, false});
  }
  return all;
}

// --- The sweep

struct Case {
  Flow flow;
  Fault fault;
};

std::ostream& operator<<(std::ostream& out, const Flow& flow) {
  return out << flow.name;
}
std::ostream& operator<<(std::ostream& out, const Case& which) {
  return out << which.flow.name << " with " << which.fault.name;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Flow& flow : flows()) {
    for (const Fault& fault : Faults) {
      all.push_back({flow, fault});
    }
  }
  return all;
}

// Whether the fault struck.
bool runWithFaultAt(const Case& which, uint64_t first) {
  SCOPED_TRACE(fmt::format("fault at step {}", first));
  const Fault& fault = which.fault;
  bool struck = false;
  int answer_in = -1;
  Scene scene(which.flow.options);
  const uint64_t last = first + static_cast<uint64_t>(fault.steps) - 1;
  scene.fate = [&](uint64_t step) {
    if (step < first || step > last) {
      return StepFate::CarriedOut;
    }
    struck = true;
    answer_in = fault.answer_after_ticks;
    return fault.fate;
  };
  scene.on_tick = [&] {
    if (struck && answer_in == fault.answer_after_ticks && fault.clients_leave) {
      scene.leaveAll();
    }
    if (answer_in >= 0 && answer_in-- == 0) {
      scene.answerLate();
    }
  };
  which.flow.play(scene);
  scene.end(which.flow.harmless && fault.harmless);
  EXPECT_EQ(scene.violations(), std::vector<std::string>());
  return struck;
}

class SweptFlow : public ::testing::TestWithParam<Flow> {};

TEST_P(SweptFlow, WithoutAFaultGivesWhatWasPlanned) {
  Scene scene(GetParam().options);
  GetParam().play(scene);
  const std::vector<uint32_t> got = scene.statuses();
  scene.end(GetParam().harmless);
  EXPECT_EQ(scene.violations(), std::vector<std::string>());
  if (!GetParam().statuses.empty()) {
    EXPECT_EQ(got, GetParam().statuses);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SweptFlow, ::testing::ValuesIn(flows()),
                         [](const auto& info) { return info.param.name; });

class Sweep : public ::testing::TestWithParam<Case> {};

TEST_P(Sweep, KeepsThePromiseWhereverTheFaultStrikes) {
  uint64_t step = 1;
  while (runWithFaultAt(GetParam(), step)) {
    ++step;
    ASSERT_LT(step, 1000u) << "the flow never ends";
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_GT(step, 1u) << "no fault struck at all";
  RecordProperty("runs", static_cast<int>(step));
}

INSTANTIATE_TEST_SUITE_P(All, Sweep, ::testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.flow.name + info.param.fault.name;
});

}  // namespace
}  // namespace idempotency::test
