#include "source/store/postgres/engine/orphans.h"

#include <algorithm>

namespace idempotency::postgres {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds FirstPause{100};
constexpr milliseconds LongestPause{10'000};
// By then the server has long ended what it was sent: statements have a time limit there.
constexpr milliseconds LongestDoubt{60'000};

}  // namespace

void Orphans::add(const Operation::Orphan& orphan, store::MonotonicTime now) {
  if (entries_.size() >= limit_) {
    return;
  }
  Entry entry{.claim = orphan.claim,
              .certain = orphan.certain,
              .under_way = false,
              .due = now,
              .pause = FirstPause,
              // If a claim is certainly stored, it is tried until its lease has expired.
              .give_up = now + std::max(orphan.lease, LongestDoubt)};
  entries_.insert_or_assign(orphan.claim.attempt, std::move(entry));
  next_due_ = std::min(next_due_, now);
}

std::vector<store::ClaimRef> Orphans::takeDue(store::MonotonicTime now, size_t limit) {
  std::vector<store::ClaimRef> due;
  if (now < next_due_) {
    return due;
  }
  next_due_ = store::Deadline::max();
  for (auto& [attempt, entry] : entries_) {
    if (entry.under_way) {
      continue;
    }
    if (entry.due <= now && due.size() < limit) {
      entry.under_way = true;
      due.push_back(entry.claim);
    } else {
      next_due_ = std::min(next_due_, entry.due);
    }
  }
  return due;
}

void Orphans::onReleased(const store::ClaimRef& claim, bool removed, store::MonotonicTime now) {
  const auto found = entries_.find(claim.attempt);
  if (found == entries_.end()) {
    return;
  }
  if (removed || found->second.certain) {
    entries_.erase(found);
    return;
  }
  found->second.give_up = std::min(found->second.give_up, now + LongestDoubt);
  postpone(claim.attempt, now);
}

void Orphans::onFailed(const store::ClaimRef& claim, store::MonotonicTime now) {
  postpone(claim.attempt, now);
}

void Orphans::postpone(protocol::Attempt attempt, store::MonotonicTime now) {
  const auto found = entries_.find(attempt);
  if (found == entries_.end()) {
    return;
  }
  Entry& entry = found->second;
  entry.under_way = false;
  entry.due = now + entry.pause;
  entry.pause = std::min(entry.pause * 2, LongestPause);
  if (entry.due > entry.give_up) {
    entries_.erase(found);
    return;
  }
  next_due_ = std::min(next_due_, entry.due);
}

}  // namespace idempotency::postgres
