#include "source/filter/redirects.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace idempotency {
namespace {

// Envoy makes the new stream at once; this is for the case that a filter before ours answers it.
constexpr std::chrono::seconds Patience{5};

}  // namespace

void Redirects::give(HeldClaim claim, Deadline now) {
  const Deadline until = now + Patience;
  {
    const std::lock_guard lock(mutex_);
    const Attempt attempt = claim.ref.attempt;
    entries_.insert_or_assign(attempt, Entry{std::move(claim), until});
    size_ = entries_.size();
  }
  wakeBy(until);
}

std::optional<HeldClaim> Redirects::take(Attempt attempt) {
  const std::lock_guard lock(mutex_);
  auto node = entries_.extract(attempt);
  size_ = entries_.size();
  if (node.empty()) {
    return std::nullopt;
  }
  return std::move(node.mapped().claim);
}

Deadline Redirects::onTime(Deadline now) {
  std::vector<HeldClaim> lost;
  Deadline next = Deadline::max();
  {
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (entry->second.until <= now) {
        lost.push_back(std::move(entry->second.claim));
        entry = entries_.erase(entry);
      } else {
        next = std::min(next, entry->second.until);
        ++entry;
      }
    }
    size_ = entries_.size();
  }
  for (HeldClaim& claim : lost) {
    lost_(std::move(claim));
  }
  return next;
}

}  // namespace idempotency
