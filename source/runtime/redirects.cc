#include "source/runtime/redirects.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace idempotency::runtime {
namespace {

// Envoy creates the new stream immediately; this covers the case that an earlier filter answers it.
constexpr std::chrono::seconds Patience{5};

}  // namespace

void Redirects::give(HeldClaim claim, store::MonotonicTime now) {
  const store::Deadline until = now + Patience;
  {
    const std::lock_guard lock(mutex_);
    const protocol::Attempt attempt = claim.ref.attempt;
    entries_.insert_or_assign(attempt, Entry{std::move(claim), until});
    size_ = entries_.size();
  }
  wakeBy(until);
}

std::optional<HeldClaim> Redirects::take(protocol::Attempt attempt) {
  const std::lock_guard lock(mutex_);
  auto node = entries_.extract(attempt);
  size_ = entries_.size();
  if (node.empty()) {
    return std::nullopt;
  }
  return std::move(node.mapped().claim);
}

store::Deadline Redirects::onTime(store::MonotonicTime now) {
  std::vector<HeldClaim> lost;
  store::Deadline next = store::Deadline::max();
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

}  // namespace idempotency::runtime
