#include "source/runtime/settler.h"

#include <algorithm>
#include <variant>
#include <vector>

namespace idempotency::runtime {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds FirstBackoff{50};
constexpr milliseconds LongestBackoff{1000};
// Shorter, because the sweeper may get there first once the lock is released.
constexpr milliseconds LongestBackoffWhileLocked{100};

constexpr char SettledElsewhere[] = "the record has been settled by somebody else";

// Whether this completion wrote the record.
bool isOf(const protocol::Completed& completion, const store::Record& record) {
  return record.status == completion.status && record.tombstone == completion.tombstone &&
         record.response.value_or("") == completion.response;
}

}  // namespace

void Settler::settle(SettleRequest request, store::MonotonicTime now) {
  const auto entry = std::make_shared<Entry>();
  entry->request = std::move(request);
  entry->patience = entry->request.until - now;
  const store::Deadline by = entry->request.report_by;
  bool wake_timer = false;
  {
    const std::lock_guard lock(mutex_);
    ++size_;
    entry->reported = entry->request.report == nullptr;
    if (!entry->reported) {
      entry->report_item = agenda_.emplace(by, std::pair(entry, Due::Report));
      wake_timer = wakesBefore(by);
    }
  }
  if (wake_timer) {
    wakeBy(by);
  }
  try {
    write(entry, now);
  } catch (...) {
    forget(*entry);
    throw;
  }
}

void Settler::forget(Entry& entry) {
  const std::lock_guard lock(mutex_);
  --size_;
  takeReport(entry);
}

bool Settler::takeReport(Entry& entry) {
  if (std::exchange(entry.reported, true)) {
    return false;
  }
  if (entry.report_item.has_value()) {
    agenda_.erase(*std::exchange(entry.report_item, std::nullopt));
  }
  return true;
}

size_t Settler::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

store::Deadline Settler::onTime(store::MonotonicTime now) {
  std::vector<std::pair<EntryPtr, Due>> due;
  store::Deadline next = store::Deadline::max();
  {
    const std::lock_guard lock(mutex_);
    const auto end = agenda_.upper_bound(now);
    for (auto item = agenda_.begin(); item != end; ++item) {
      Entry& entry = *item->second.first;
      if (item->second.second == Due::Retry) {
        waiting_bytes_ -= std::exchange(entry.waiting_bytes, 0);
      } else {
        entry.report_item.reset();
      }
      due.push_back(item->second);
    }
    agenda_.erase(agenda_.begin(), end);
    next = agenda_.empty() ? store::Deadline::max() : agenda_.begin()->first;
    next_wake_ = next;
  }
  for (const auto& [entry, what] : due) {
    if (what == Due::Report) {
      report(entry, {Settled::NotYet, "the store did not respond in time"});
    } else {
      write(entry, now);
    }
  }
  return next;
}

void Settler::write(const EntryPtr& entry, store::MonotonicTime now) {
  const store::Deadline deadline =
      std::min(std::max(now + store_timeout_, entry->request.report_by), entry->request.until);
  entry->asked = now;
  store_.settle(entry->request.claim, entry->request.ending, deadline,
                [this, entry](const store::WriteResult& result) { onResult(entry, result); });
}

void Settler::onResult(const EntryPtr& entry, const store::WriteResult& result) {
  switch (result.outcome) {
    case store::WriteOutcome::Done:
      onDone(entry, result);
      return;
    case store::WriteOutcome::Fenced:
      end(entry, {Settled::Fenced, result.reason});
      return;
    case store::WriteOutcome::Locked:
      entry->request.until = std::chrono::steady_clock::now() + entry->patience;
      onFailure(entry, result.reason, LongestBackoffWhileLocked);
      return;
    case store::WriteOutcome::InDoubt:
      entry->in_doubt = true;
      onFailure(entry, result.reason, LongestBackoff);
      return;
    case store::WriteOutcome::Unavailable:
      onFailure(entry, result.reason, LongestBackoff);
      return;
  }
}

void Settler::onDone(const EntryPtr& entry, const store::WriteResult& result) {
  const auto* const completion = std::get_if<protocol::Completed>(&entry->request.ending);
  bool certain = !result.repeated || completion == nullptr;
  if (result.completed.has_value()) {
    // Perhaps by an earlier try of this, whose answer was lost.
    certain = entry->in_doubt && completion != nullptr && isOf(*completion, *result.completed);
    if (!certain) {
      onCompletedBefore(entry, *result.completed);
      return;
    }
  } else if (!certain && !entry->in_doubt) {
    end(entry, {Settled::Fenced, SettledElsewhere});
    return;
  }
  if (entry->request.on_done != nullptr) {
    entry->request.on_done(certain);
  }
  end(entry, {Settled::Done, {}});
}

void Settler::onCompletedBefore(const EntryPtr& entry, const store::Record& record) {
  SettleReport found{Settled::Fenced, SettledElsewhere};
  if (entry->request.on_completed_by_upstream != nullptr) {
    try {
      found.completed = entry->request.on_completed_by_upstream(record, entry->asked);
    } catch (...) {  // No memory for it. The report must come all the same.
    }
  }
  if (found.completed != nullptr) {
    found.settled = Settled::ByUpstream;
    found.reason.clear();
  }
  end(entry, found);
}

void Settler::onFailure(const EntryPtr& entry, const std::string& reason,
                        milliseconds longest_backoff) {
  const store::MonotonicTime now = std::chrono::steady_clock::now();
  entry->backoff = std::clamp(entry->backoff * 2, FirstBackoff, longest_backoff);
  const uint64_t bytes = protocol::responseBytes(entry->request.ending);
  const store::Deadline next_try = now + entry->backoff;
  bool again = next_try < entry->request.until;
  bool wake_timer = false;
  {
    const std::lock_guard lock(mutex_);
    again = again && waiting_bytes_ + bytes <= max_bytes_;
    if (again) {
      entry->waiting_bytes = bytes;
      waiting_bytes_ += bytes;
      agenda_.emplace(next_try, std::pair(entry, Due::Retry));
      wake_timer = wakesBefore(next_try);
    }
  }
  if (!again) {
    end(entry, {Settled::Never, reason});
  } else if (wake_timer) {
    wakeBy(next_try);
  }
}

void Settler::end(const EntryPtr& entry, const SettleReport& report) {
  {
    const std::lock_guard lock(mutex_);
    --size_;
  }
  this->report(entry, report);
  if (entry->request.on_over != nullptr) {
    entry->request.on_over();
  }
}

void Settler::report(const EntryPtr& entry, const SettleReport& report) {
  {
    const std::lock_guard lock(mutex_);
    if (!takeReport(*entry)) {
      return;
    }
  }
  entry->request.report(report);
}

bool Settler::wakesBefore(store::Deadline time) {
  if (time >= next_wake_) {
    return false;
  }
  next_wake_ = time;
  return true;
}

}  // namespace idempotency::runtime
