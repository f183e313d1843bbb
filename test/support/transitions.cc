#include "test/support/transitions.h"

#include <array>

namespace idempotency {
namespace {

using enum protocol::RecordState;
using enum RecordEvent;

constexpr RecordPlace Absent = std::nullopt;

constexpr std::array Transitions = {
    Transition{Absent, Claim, InProgress},

    Transition{InProgress, Complete, Completed},
    Transition{InProgress, Fail, FailedRetryable},
    Transition{InProgress, Release, Absent},
    Transition{InProgress, HandBack, FailedRetryable},
    Transition{InProgress, LoseOutcome, Unknown},
    Transition{InProgress, RunOutOfLease, Unknown},
    Transition{InProgress, AllowRetry, FailedRetryable},
    Transition{InProgress, ReclaimDeadLease, InProgress},
    // The upstream's own transaction may complete the record while the request still runs.
    Transition{InProgress, ResolveCompleted, Completed},
    Transition{InProgress, Bust, Absent},

    Transition{FailedRetryable, Reclaim, InProgress},
    Transition{FailedRetryable, Expire, Expired},
    Transition{FailedRetryable, Delete, Absent},
    Transition{FailedRetryable, Bust, Absent},

    // No claim leads out of Unknown, because a retry cannot find out what an earlier attempt did.
    // Neither does time. The attempt itself can complete it, if its result arrives after all: that
    // makes the key safe. But it must not fail or release it so late: that would free a key after
    // others have been told that its outcome is unknown.
    Transition{Unknown, Complete, Completed},
    Transition{Unknown, ResolveCompleted, Completed},
    Transition{Unknown, ResolveFailed, FailedRetryable},
    Transition{Unknown, Bust, Absent},

    // Only after it has expired.
    Transition{Completed, Reclaim, InProgress},
    Transition{Completed, Expire, Expired},
    Transition{Completed, Delete, Absent},
    Transition{Completed, Bust, Absent},

    Transition{Expired, Reclaim, InProgress},
    Transition{Expired, Delete, Absent},
    Transition{Expired, Bust, Absent},
};

}  // namespace

std::span<const Transition> legalTransitions() {
  return Transitions;
}

const Transition* findTransition(RecordPlace from, RecordEvent event) {
  for (const Transition& transition : Transitions) {
    if (transition.from == from && transition.event == event) {
      return &transition;
    }
  }
  return nullptr;
}

std::string_view name(protocol::RecordState state) {
  switch (state) {
    case InProgress:
      return "in_progress";
    case Completed:
      return "completed";
    case FailedRetryable:
      return "failed_retryable";
    case Unknown:
      return "unknown";
    case Expired:
      return "expired";
  }
  return "invalid";
}

std::string_view name(RecordEvent event) {
  switch (event) {
    case Claim:
      return "claim";
    case Reclaim:
      return "reclaim";
    case ReclaimDeadLease:
      return "reclaim_dead_lease";
    case Complete:
      return "complete";
    case Fail:
      return "fail";
    case Release:
      return "release";
    case HandBack:
      return "hand_back";
    case LoseOutcome:
      return "lose_outcome";
    case RunOutOfLease:
      return "run_out_of_lease";
    case AllowRetry:
      return "allow_retry";
    case ResolveCompleted:
      return "resolve_completed";
    case ResolveFailed:
      return "resolve_failed";
    case Expire:
      return "expire";
    case Delete:
      return "delete";
    case Bust:
      return "bust";
  }
  return "invalid";
}

}  // namespace idempotency
