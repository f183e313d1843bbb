#include "source/maintenance/heartbeat.h"

#include <algorithm>
#include <string>
#include <utility>

namespace idempotency {
namespace {

using std::chrono::milliseconds;

// Claims in one call. More would hold up the requests that wait behind it.
constexpr size_t MaxPortion = 4096;

milliseconds period(milliseconds lease) {
  return std::max(lease / 3, milliseconds(1));
}
milliseconds youth(milliseconds lease) {
  return lease / 6;
}
milliseconds retryPause(milliseconds lease) {
  return std::max(lease / 12, milliseconds(1));
}
// A call that takes longer is of no use any more: the next turn does it.
milliseconds patience(milliseconds lease) {
  return std::clamp(lease / 6, milliseconds(10), milliseconds(10'000));
}

}  // namespace

std::shared_ptr<Heartbeat> Heartbeat::create(Store& store,
                                             std::shared_ptr<MaintenanceObserver> observer) {
  return std::shared_ptr<Heartbeat>(new Heartbeat(store, std::move(observer)));
}

void Heartbeat::add(ClaimRef claim, milliseconds lease, Deadline claimed,
                    std::function<void()> fenced) {
  const Deadline first_beat = claimed + period(lease);
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    Group& group = groups_[lease];
    first = group.claims.empty() && group.calls == 0;
    if (first) {
      group.next_beat = first_beat;
    }
    leases_[claim.attempt] = lease;
    group.claims[claim.attempt] = {
        .identity = std::move(claim.identity), .renewed = claimed, .fenced = std::move(fenced)};
  }
  // The timer knows of the others' beat already.
  if (first) {
    wakeBy(first_beat);
  }
}

void Heartbeat::remove(Attempt attempt) {
  Claim removed;  // Destroyed without the lock.
  const std::lock_guard lock(mutex_);
  const auto lease = leases_.find(attempt);
  if (lease == leases_.end()) {
    return;
  }
  const auto group = groups_.find(lease->second);
  leases_.erase(lease);
  const auto claim = group->second.claims.find(attempt);
  removed = std::move(claim->second);
  group->second.claims.erase(claim);
}

size_t Heartbeat::size() const {
  const std::lock_guard lock(mutex_);
  return leases_.size();
}

std::vector<std::vector<ClaimRef>> Heartbeat::portions(const Group& group, milliseconds lease,
                                                       Deadline now) {
  std::vector<std::vector<ClaimRef>> all;
  for (const auto& [attempt, claim] : group.claims) {
    if (claim.renewed + youth(lease) > now) {
      continue;
    }
    if (all.empty() || all.back().size() == MaxPortion) {
      all.emplace_back();
    }
    all.back().push_back({claim.identity, attempt});
  }
  return all;
}

Deadline Heartbeat::onTime(Deadline now) {
  std::vector<std::pair<milliseconds, std::vector<ClaimRef>>> calls;
  Deadline next = Deadline::max();
  {
    const std::lock_guard lock(mutex_);
    for (auto entry = groups_.begin(); entry != groups_.end();) {
      const milliseconds lease = entry->first;
      Group& group = entry->second;
      if (group.calls > 0) {
        ++entry;  // The answer wakes us.
        continue;
      }
      if (group.claims.empty()) {
        entry = groups_.erase(entry);
        continue;
      }
      if (std::exchange(group.failed, false)) {
        group.next_beat = now + retryPause(lease);
      }
      if (group.next_beat <= now) {
        for (std::vector<ClaimRef>& portion : portions(group, lease, now)) {
          ++group.calls;
          calls.emplace_back(lease, std::move(portion));
        }
        group.next_beat = now + period(lease);
      }
      next = std::min(next, group.next_beat);
      ++entry;
    }
  }
  for (auto& [lease, claims] : calls) {
    extend(std::move(claims), lease, now);
  }
  return next;
}

void Heartbeat::extend(std::vector<ClaimRef> claims, milliseconds lease, Deadline now) {
  auto done = [self = shared_from_this(), claims, lease, now](const ExtendResult& result) {
    self->onExtended(claims, lease, now, result);
  };
  store_.extend(std::move(claims), lease, now + patience(lease), std::move(done));
}

void Heartbeat::onExtended(const std::vector<ClaimRef>& claims, milliseconds lease, Deadline sent,
                           const ExtendResult& result) {
  std::vector<std::function<void()>> fenced;
  uint64_t extended = 0;
  uint64_t failed = 0;
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    Group& group = groups_[lease];
    --group.calls;
    for (size_t i = 0; i < claims.size(); ++i) {
      const auto claim = group.claims.find(claims[i].attempt);
      const WriteOutcome outcome =
          i < result.size() ? result[i].outcome : WriteOutcome::Unavailable;
      switch (outcome) {
        case WriteOutcome::Done:
          ++extended;
          if (claim != group.claims.end()) {
            claim->second.renewed = sent;
          }
          break;
        case WriteOutcome::Fenced:
          // One that was removed meanwhile has ended by itself: that is no fencing.
          if (claim != group.claims.end()) {
            fenced.push_back(std::move(claim->second.fenced));
            group.claims.erase(claim);
            leases_.erase(claims[i].attempt);
          }
          break;
        case WriteOutcome::Unavailable:
        case WriteOutcome::InDoubt:
          ++failed;
          reason = i < result.size() ? result[i].reason : "no result";
          break;
      }
    }
    group.failed = group.failed || failed > 0;
  }
  if (extended > 0) {
    observer_->onExtended(extended);
  }
  if (failed > 0) {
    observer_->onExtendFailed(failed, reason);
  }
  if (!fenced.empty()) {
    observer_->onFenced(fenced.size());
  }
  for (const std::function<void()>& report : fenced) {
    if (report) {
      report();
    }
  }
  wake();
}

}  // namespace idempotency
