#include "source/filter/settler.h"

#include <algorithm>
#include <vector>

#include "source/protocol/overloaded.h"

namespace idempotency {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds FirstBackoff{50};
constexpr milliseconds LongestBackoff{1000};

uint64_t bytesOf(const Ending& ending) {
  const auto* complete = std::get_if<CompleteRequest>(&ending);
  return complete == nullptr ? 0 : complete->response.size();
}

}  // namespace

const ClaimRef& claimOf(const Ending& ending) {
  return std::visit([](const auto& request) -> const ClaimRef& { return request.claim; }, ending);
}

void Settler::settle(SettleRequest request, Deadline now) {
  const auto entry = std::make_shared<Entry>();
  entry->request = std::move(request);
  const Deadline by = entry->request.report_by;
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
  write(entry, now);
}

size_t Settler::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

Deadline Settler::onTime(Deadline now) {
  std::vector<std::pair<EntryPtr, Due>> due;
  Deadline next = Deadline::max();
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
    next = agenda_.empty() ? Deadline::max() : agenda_.begin()->first;
    next_wake_ = next;
  }
  for (const auto& [entry, what] : due) {
    if (what == Due::Report) {
      report(entry, Settled::NotYet, "the store has not answered in time");
    } else {
      write(entry, now);
    }
  }
  return next;
}

void Settler::write(const EntryPtr& entry, Deadline now) {
  const Deadline deadline =
      std::min(std::max(now + store_timeout_, entry->request.report_by), entry->request.until);
  auto done = [this, entry](const WriteResult& result) { onResult(entry, result); };
  std::visit(
      Overloaded{
          [&](const UnknownRequest& request) { store_.markUnknown(request, deadline, done); },
          [&](const CompleteRequest& request) { store_.complete(request, deadline, done); },
          [&](const FailRequest& request) { store_.fail(request, deadline, done); },
          [&](const ReleaseRequest& request) { store_.release(request.claim, deadline, done); },
      },
      entry->request.ending);
}

void Settler::onResult(const EntryPtr& entry, const WriteResult& result) {
  switch (result.outcome) {
    case WriteOutcome::Done:
      if (entry->request.on_done != nullptr) {
        entry->request.on_done();
      }
      end(entry, Settled::Done, result.reason);
      return;
    case WriteOutcome::Fenced:
      end(entry, Settled::Fenced, result.reason);
      return;
    case WriteOutcome::Unavailable:
    case WriteOutcome::InDoubt:
      onFailure(entry, result.reason);
      return;
  }
}

void Settler::onFailure(const EntryPtr& entry, const std::string& reason) {
  const Deadline now = std::chrono::steady_clock::now();
  entry->backoff = std::clamp(entry->backoff * 2, FirstBackoff, LongestBackoff);
  const uint64_t bytes = bytesOf(entry->request.ending);
  const Deadline next_try = now + entry->backoff;
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
    end(entry, Settled::Never, reason);
  } else if (wake_timer) {
    wakeBy(next_try);
  }
}

void Settler::end(const EntryPtr& entry, Settled settled, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    --size_;
  }
  report(entry, settled, reason);
  if (entry->request.on_over != nullptr) {
    entry->request.on_over();
  }
}

void Settler::report(const EntryPtr& entry, Settled settled, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(entry->reported, true)) {
      return;
    }
    if (entry->report_item.has_value()) {
      agenda_.erase(*std::exchange(entry->report_item, std::nullopt));
    }
  }
  entry->request.report(settled, reason);
}

bool Settler::wakesBefore(Deadline time) {
  if (time >= next_wake_) {
    return false;
  }
  next_wake_ = time;
  return true;
}

}  // namespace idempotency
