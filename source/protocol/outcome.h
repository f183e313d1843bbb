#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "source/protocol/declared_outcome.h"
#include "source/protocol/ending.h"
#include "source/protocol/policy.h"
#include "source/protocol/proxy_evidence.h"
#include "source/protocol/record.h"

namespace idempotency::protocol {

// How an attempt ends, as judgeOutcome() decides. endingFor() derives what is written.
enum class EndingKind : uint8_t {
  Unknown,     // It may have run. First, so that a zeroed value never frees a key.
  Completed,   // With the response, or with the tombstone that says why there is none.
  Retryable,   // The next request may run.
  Released,    // As if the request had never come.
  Redirected,  // Nothing yet: Envoy follows an internal redirect, the claim moves to a new filter.
};

// Everything that was observed of an attempt when its stream, or its response, has ended. Views are
// needed only during the call.
struct Observation {
  // --- By our Envoy
  // The details were "via_upstream" when the response headers came. To be remembered then: later
  // events overwrite the details.
  bool via_upstream = false;
  // The response's last byte (or trailers) was seen.
  bool complete = false;
  std::string_view details = {};  // Envoy's response code details, as they are now.
  uint64_t flags = 0;             // Envoy's response flags, one bit each.
  uint64_t attempts = 0;          // Envoy's count of upstream attempts, 0 if none began.
  // The request went through an internal redirect: an upstream has answered it before.
  bool redirected = false;

  // --- By the response, where there is one
  int status = 0;                    // HTTP's, as the upstream sent it; stored and replayed.
  int judged_status = 0;             // For the policy: the same, or the equivalent of grpc-status.
  bool grpc_status_missing = false;  // A gRPC response without grpc-status.
  DeclaredOutcome declared = DeclaredOutcome::None;
  ProxyEvidence proxy = ProxyEvidence::None;
  uint64_t body_bytes = 0;  // Received in all.
  bool storable = true;     // Its headers and trailers may be replayed (see fieldsToStore).
};

// What kind of knowledge decided.
enum class OutcomeBasis : uint8_t {
  Envoy,               // What our Envoy reports about the upstream call.
  Declaration,         // The upstream said so itself.
  InvalidDeclaration,  // The upstream said something that has no meaning.
  Proxy,               // A proxy generated the response in place of the service.
  EarlierSend,         // The request had been sent before the attempt that the response is about.
  Response,            // The response and the policy.
};

struct AttemptEnding {
  EndingKind kind = EndingKind::Unknown;
  Tombstone tombstone = Tombstone::None;   // Completed only.
  std::string_view rule = "unrecognised";  // The row that decided, for operators.
  OutcomeBasis basis = OutcomeBasis::Envoy;
  // Retryable although the outcome is not known: see Policy::retriesUnknown().
  bool not_known = false;
  bool operator==(const AttemptEnding&) const = default;
};

// One row of the table of outcomes. The first that applies decides.
struct OutcomeRule {
  std::string_view name;    // A word for records and docs/semantics.md.
  std::string_view source;  // Where the knowledge comes from.
  OutcomeBasis basis;
  EndingKind ending;
  bool (*applies)(const Policy& policy, const Observation& seen);
};
std::span<const OutcomeRule> outcomeRules();

// How the attempt ends. Anything that is not recognised is Unknown. If the policy retries unknown
// outcomes, Unknown becomes Retryable, unless the upstream declared it, or declared something that
// has no meaning.
[[nodiscard]] AttemptEnding judgeOutcome(const Policy& policy, const Observation& seen);

// What a verdict writes to the record; defined only here. `response` contains the bytes to store,
// and is empty unless the verdict is Completed without a tombstone. Redirected writes nothing; if
// it is passed anyway, the outcome is unknown.
[[nodiscard]] Ending endingFor(const AttemptEnding& verdict, const Observation& seen,
                               std::string response,
                               std::optional<std::chrono::milliseconds> reconcile_after);

// What is written if nothing was observed, because the stream is lost, and the request may have
// run. `error` is a code.
[[nodiscard]] Ending endingOfLost(const Policy& policy, std::string error,
                                  std::optional<std::chrono::milliseconds> reconcile_after);

// Lower-case words for statistics, logs and docs: "unknown", "completed".
std::string_view name(EndingKind kind);

}  // namespace idempotency::protocol
