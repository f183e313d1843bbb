#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "source/protocol/declared_outcome.h"
#include "source/protocol/proxy_evidence.h"
#include "source/protocol/settings.h"

namespace idempotency::protocol {

// What the upstream's answer says about an attempt whose outcome is unknown.
enum class Finding : uint8_t {
  AskAgain,  // Nothing yet. First, so that a zeroed value settles nothing.
  Ran,       // It ran, and the answer has its result.
  NotRun,    // It did not run, and it never will.
};

// An answer, or that there is none.
struct SeenAnswer {
  bool came = false;  // Else: no connection, a timeout, a reset, no such cluster.
  int status = 0;
  DeclaredOutcome declared = DeclaredOutcome::None;
  ProxyEvidence proxy = ProxyEvidence::None;
  bool has_body = false;
  bool usable = true;                      // A response can be stored from it.
  std::chrono::milliseconds claim_age{0};  // Since the attempt claimed its key.
};

// One row of the table of answers. The first that applies decides.
struct AnswerRule {
  std::string_view name;    // A word for the audit, the log and docs/reconcile.md.
  std::string_view source;  // Where the knowledge comes from.
  Finding finding;
  bool answered;  // The service has answered the question, even if with "not yet".
  bool (*applies)(const ReconcileSettings& settings, const SeenAnswer& seen);
};
std::span<const AnswerRule> answerRules();

// The row that decides. The last one applies to everything.
[[nodiscard]] const AnswerRule& judgeAnswer(const ReconcileSettings& settings,
                                            const SeenAnswer& seen);

// How long to wait after this many tries: twice as long each time, from `interval` up to
// `max_interval`, and up to a fifth less. `random` is in [0, 1).
[[nodiscard]] std::chrono::milliseconds retryDelay(const ReconcileSettings& settings,
                                                   uint32_t tries, double random);

// Lower-case words for docs and tests: "ask again", "ran", "not run".
std::string_view name(Finding finding);

}  // namespace idempotency::protocol
