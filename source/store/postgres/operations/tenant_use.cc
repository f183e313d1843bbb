#include "source/store/postgres/operations/tenant_use.h"

#include <algorithm>

namespace idempotency::postgres {
namespace {

constexpr size_t MostChanges = 1000;  // In one statement.
constexpr std::chrono::seconds ForgottenAfter{60};
constexpr std::chrono::milliseconds PauseAfterFailure{1000};

}  // namespace

TenantUse::Entry& TenantUse::use(const std::string& tenant, store::MonotonicTime now) {
  Entry& entry = entries_[tenant];
  entry.used = now;
  return entry;
}

bool TenantUse::enterUnasked(const std::string& tenant, uint64_t cap, store::MonotonicTime now) {
  const auto found = entries_.find(tenant);
  if (found == entries_.end()) {
    return false;
  }
  Entry& entry = found->second;
  if (entry.told == store::Deadline() || now - entry.told >= FreshFor) {
    return false;
  }
  const int64_t room = static_cast<int64_t>(cap) - known(entry);
  const auto share = (room + static_cast<int64_t>(entry.unasked)) / int64_t{ShareOfRoom};
  if (share <= static_cast<int64_t>(entry.unasked)) {
    return false;
  }
  ++entry.unasked;
  ++entry.reserved;
  entry.used = now;
  return true;
}

bool TenantUse::enter(const std::string& tenant, uint64_t cap, store::MonotonicTime now) {
  Entry& entry = use(tenant, now);
  if (known(entry) >= static_cast<int64_t>(cap)) {
    return false;
  }
  ++entry.reserved;
  return true;
}

bool TenantUse::enterCounted(const std::string& tenant, uint64_t cap, uint64_t live,
                             store::MonotonicTime now) {
  Entry& entry = use(tenant, now);
  // What is pending or being written was counted: it is in the table.
  if (static_cast<int64_t>(live) + entry.reserved >= static_cast<int64_t>(cap)) {
    return false;
  }
  ++entry.reserved;
  return true;
}

void TenantUse::leave(const std::string& tenant, bool added, store::MonotonicTime now) {
  Entry& entry = use(tenant, now);
  --entry.reserved;
  if (added) {
    ++entry.additions;
    // One that came in by memory has company, and time.
    change(entry, 1, now, /*at_once=*/entry.unasked == 0);
  }
}

void TenantUse::change(Entry& entry, int64_t delta, store::MonotonicTime now, bool at_once) {
  entry.pending += delta;
  entry.changed = true;
  next_write_ = std::min(next_write_, at_once ? now : now + WriteEvery);
}

uint64_t TenantUse::additions(const std::string& tenant) const {
  const auto found = entries_.find(tenant);
  return found == entries_.end() ? 0 : found->second.additions;
}

uint64_t TenantUse::writes(const std::string& tenant) const {
  const auto found = entries_.find(tenant);
  return found == entries_.end() ? 0 : found->second.writes;
}

void TenantUse::onRead(const std::string& tenant, uint64_t records, uint64_t asked_at_writes,
                       store::MonotonicTime now) {
  Entry& entry = use(tenant, now);
  if (entry.writes != asked_at_writes) {
    return;  // The number from the write is newer.
  }
  entry.records = static_cast<int64_t>(records);
  entry.told = now;
  entry.unasked = 0;
  entry.first.reset();
}

bool TenantUse::isBelow(const std::string& tenant, uint64_t records) const {
  const auto found = entries_.find(tenant);
  return found != entries_.end() && found->second.told != store::Deadline() &&
         found->second.records < static_cast<int64_t>(records);
}

void TenantUse::onAtLeast(const std::string& tenant, uint64_t records, store::MonotonicTime now) {
  Entry& entry = use(tenant, now);
  entry.records = std::max(entry.records, static_cast<int64_t>(records));
}

void TenantUse::onFirstCount(const std::string& tenant, uint64_t records,
                             store::MonotonicTime now) {
  Entry& entry = use(tenant, now);
  // What was claimed here in the meantime is in the table, and was counted.
  entry.records = static_cast<int64_t>(records) - entry.pending - entry.writing;
  entry.first = std::max<int64_t>(entry.records, 0);
  change(entry, 0, now, /*at_once=*/true);
}

void TenantUse::onRefused(const std::string& tenant, store::MonotonicTime now) {
  change(use(tenant, now), 0, now, /*at_once=*/false);
}

void TenantUse::onDeleted(const std::string& tenant, store::MonotonicTime now) {
  // Nothing is known about a tenant that was not asked for here: the next count decides.
  if (const auto found = entries_.find(tenant); found != entries_.end()) {
    found->second.used = now;
    change(found->second, -1, now, /*at_once=*/false);
  }
}

std::vector<TenantUse::Change> TenantUse::takeChanges(store::MonotonicTime now) {
  forgetIdle(now);
  std::vector<Change> changes;
  next_write_ = store::Deadline::max();
  for (auto& [tenant, entry] : entries_) {
    if (!entry.changed) {
      continue;
    }
    if (changes.size() == MostChanges) {
      next_write_ = now;
      break;
    }
    changes.push_back({tenant, entry.first, entry.pending});
    entry.writing = std::exchange(entry.pending, 0);
    entry.changed = false;
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.tenant < b.tenant; });
  writing_ = !changes.empty();
  return changes;
}

void TenantUse::onWritten(const std::vector<Change>& changes,
                          const absl::flat_hash_map<std::string, int64_t>& records,
                          store::MonotonicTime now) {
  writing_ = false;
  for (const Change& written : changes) {
    const auto entry = entries_.find(written.tenant);
    if (entry == entries_.end()) {
      continue;
    }
    const int64_t delta = std::exchange(entry->second.writing, 0);
    const auto told = records.find(written.tenant);
    if (told == records.end()) {
      change(entry->second, delta, now, /*at_once=*/false);  // It was locked.
      continue;
    }
    ++entry->second.writes;
    entry->second.records = told->second;
    entry->second.told = now;
    entry->second.unasked = 0;
    entry->second.first.reset();
  }
}

void TenantUse::onNotWritten(const std::vector<Change>& changes, store::MonotonicTime now) {
  writing_ = false;
  for (const Change& change : changes) {
    if (const auto entry = entries_.find(change.tenant); entry != entries_.end()) {
      entry->second.pending += std::exchange(entry->second.writing, 0);
      entry->second.changed = true;
    }
  }
  next_write_ = std::max(next_write_ == store::Deadline::max() ? store::Deadline() : next_write_,
                         now + PauseAfterFailure);
}

void TenantUse::onLost(const std::vector<Change>& changes, store::MonotonicTime now) {
  for (const Change& change : changes) {
    if (const auto entry = entries_.find(change.tenant); entry != entries_.end()) {
      entry->second.writing = std::max<int64_t>(entry->second.writing, 0);
    }
  }
  onNotWritten(changes, now);
}

void TenantUse::forgetIdle(store::MonotonicTime now) {
  absl::erase_if(entries_, [&](const auto& named) {
    const Entry& entry = named.second;
    return entry.reserved == 0 && entry.writing == 0 && !entry.changed &&
           now - entry.used > ForgottenAfter;
  });
}

}  // namespace idempotency::postgres
