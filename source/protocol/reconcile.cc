#include "source/protocol/reconcile.h"

#include <algorithm>
#include <array>

namespace idempotency::protocol {
namespace {

constexpr int Ok = 200;
constexpr int Created = 201;
constexpr int Accepted = 202;
constexpr int NotFound = 404;
constexpr int Conflict = 409;

bool hasResult(const SeenAnswer& seen) {
  return (seen.status == Ok || seen.status == Created) && seen.has_body;
}

// Whether a 404 says that the attempt never will run. Otherwise its request may still be on its
// way.
bool isAbsenceFinal(const ReconcileSettings& settings, const SeenAnswer& seen) {
  return settings.absent_is_final || (settings.absent_final_after.has_value() &&
                                      seen.claim_age >= *settings.absent_final_after);
}

using Applies = bool (*)(const ReconcileSettings&, const SeenAnswer&);

template <DeclaredOutcome declared>
constexpr Applies Declares =
    [](const ReconcileSettings&, const SeenAnswer& seen) { return seen.declared == declared; };

constexpr std::array Rules = {
    AnswerRule{"no_answer", "no connection, timeout, reset, no such cluster", Finding::AskAgain,
               false, [](const ReconcileSettings&, const SeenAnswer& seen) { return !seen.came; }},

    // The upstream knows best.
    AnswerRule{"declared_completed", "Idempotency-Outcome", Finding::Ran, true,
               [](const ReconcileSettings&, const SeenAnswer& seen) {
                 return seen.declared == DeclaredOutcome::Completed && seen.usable;
               }},
    AnswerRule{"declared_not_run", "Idempotency-Outcome", Finding::NotRun, true,
               Declares<DeclaredOutcome::NotRun>},
    AnswerRule{"declared_retryable", "Idempotency-Outcome", Finding::NotRun, true,
               Declares<DeclaredOutcome::Retryable>},
    AnswerRule{"declared_unknown", "Idempotency-Outcome", Finding::AskAgain, true,
               Declares<DeclaredOutcome::Unknown>},
    AnswerRule{"declared_invalid", "Idempotency-Outcome", Finding::AskAgain, false,
               Declares<DeclaredOutcome::Invalid>},

    // Nobody else may speak for the service.
    AnswerRule{
        "proxy_made", "Proxy-Status, or the text of a proxy's error", Finding::AskAgain, false,
        [](const ReconcileSettings&, const SeenAnswer& seen) {
          return seen.declared == DeclaredOutcome::None &&
                 (seen.proxy == ProxyEvidence::InDoubt || seen.proxy == ProxyEvidence::NotSent);
        }},

    // The service's answer.
    AnswerRule{"unusable", "the parts that `response` names", Finding::AskAgain, false,
               [](const ReconcileSettings&, const SeenAnswer& seen) {
                 return !seen.usable &&
                        (seen.declared == DeclaredOutcome::Completed || hasResult(seen));
               }},
    AnswerRule{"result", "200 or 201 with a body", Finding::Ran, true,
               [](const ReconcileSettings&, const SeenAnswer& seen) { return hasResult(seen); }},
    AnswerRule{"absent_for_good", "404; absent_is_final or absent_final_after", Finding::NotRun,
               true,
               [](const ReconcileSettings& settings, const SeenAnswer& seen) {
                 return seen.status == NotFound && isAbsenceFinal(settings, seen);
               }},
    AnswerRule{
        "absent", "404", Finding::AskAgain, true,
        [](const ReconcileSettings&, const SeenAnswer& seen) { return seen.status == NotFound; }},
    AnswerRule{"still_running", "202 or 409", Finding::AskAgain, true,
               [](const ReconcileSettings&, const SeenAnswer& seen) {
                 return seen.status == Accepted || seen.status == Conflict;
               }},
    AnswerRule{"other", "any other status", Finding::AskAgain, false,
               [](const ReconcileSettings&, const SeenAnswer&) { return true; }},
};

}  // namespace

std::span<const AnswerRule> answerRules() {
  return Rules;
}

const AnswerRule& judgeAnswer(const ReconcileSettings& settings, const SeenAnswer& seen) {
  const auto* const rule =
      std::find_if(Rules.begin(), Rules.end(),
                   [&](const AnswerRule& candidate) { return candidate.applies(settings, seen); });
  return rule == Rules.end() ? Rules.back() : *rule;
}

std::chrono::milliseconds retryDelay(const ReconcileSettings& settings, uint32_t tries,
                                     double random) {
  auto delay = settings.interval;
  for (uint32_t i = 1; i < tries && delay < settings.max_interval; ++i) {
    delay *= 2;
  }
  delay = std::min(delay, settings.max_interval);
  return delay - std::chrono::duration_cast<std::chrono::milliseconds>(delay * 0.2 * random);
}

std::string_view name(Finding finding) {
  switch (finding) {
    case Finding::AskAgain:
      return "ask again";
    case Finding::Ran:
      return "ran";
    case Finding::NotRun:
      return "not run";
  }
  return "ask again";
}

}  // namespace idempotency::protocol
