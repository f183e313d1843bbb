#include "source/runtime/heartbeat.h"

#include <algorithm>
#include <string>
#include <utility>

namespace idempotency::runtime {
namespace {

using std::chrono::milliseconds;

// Claims per call. More would delay the requests behind it.
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
// A call that takes longer is useless: the next turn repeats it.
milliseconds patience(milliseconds lease) {
  return std::clamp(lease / 6, milliseconds(10), milliseconds(10'000));
}

}  // namespace

std::shared_ptr<Heartbeat> Heartbeat::create(store::Store& store,
                                             std::shared_ptr<MaintenanceObserver> observer) {
  return std::shared_ptr<Heartbeat>(new Heartbeat(store, std::move(observer)));
}

void Heartbeat::add(store::ClaimRef claim, milliseconds lease, store::Deadline claimed,
                    std::function<void()> fenced) {
  const store::Deadline first_beat = claimed + period(lease);
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

void Heartbeat::remove(protocol::Attempt attempt) {
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

bool Heartbeat::holds(protocol::Attempt attempt) const {
  const std::lock_guard lock(mutex_);
  return leases_.contains(attempt);
}

size_t Heartbeat::size() const {
  const std::lock_guard lock(mutex_);
  return leases_.size();
}

std::vector<std::vector<store::ClaimRef>> Heartbeat::portions(const Group& group,
                                                              milliseconds lease,
                                                              store::MonotonicTime now) {
  std::vector<std::vector<store::ClaimRef>> all;
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

store::Deadline Heartbeat::onTime(store::MonotonicTime now) {
  std::vector<std::pair<milliseconds, std::vector<store::ClaimRef>>> calls;
  store::Deadline next = store::Deadline::max();
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
        for (std::vector<store::ClaimRef>& portion : portions(group, lease, now)) {
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

void Heartbeat::extend(std::vector<store::ClaimRef> claims, milliseconds lease,
                       store::MonotonicTime now) {
  auto done = [self = shared_from_this(), claims, lease, now](const store::ExtendResult& result) {
    self->onExtended(claims, lease, now, result);
  };
  store_.extend(std::move(claims), lease, now + patience(lease), std::move(done));
}

void Heartbeat::onExtended(const std::vector<store::ClaimRef>& claims, milliseconds lease,
                           store::Deadline sent, const store::ExtendResult& result) {
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
      const store::WriteOutcome outcome =
          i < result.size() ? result[i].outcome : store::WriteOutcome::Unavailable;
      switch (outcome) {
        case store::WriteOutcome::Done:
          ++extended;
          if (claim != group.claims.end()) {
            claim->second.renewed = sent;
          }
          break;
        case store::WriteOutcome::Fenced:
          // If it was removed in the meantime, it has ended normally and was not fenced.
          if (claim != group.claims.end()) {
            fenced.push_back(std::move(claim->second.fenced));
            group.claims.erase(claim);
            leases_.erase(claims[i].attempt);
          }
          break;
        case store::WriteOutcome::Locked:
          // By the write that ends it, perhaps.
          if (claim == group.claims.end()) {
            break;
          }
          [[fallthrough]];
        case store::WriteOutcome::Unavailable:
        case store::WriteOutcome::InDoubt:
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

}  // namespace idempotency::runtime
