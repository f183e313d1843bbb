#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "source/maintenance/timed_task.h"
#include "source/store/store.h"

namespace idempotency {

struct ReleaseRequest {
  ClaimRef claim;
};

// What is written to the record when an attempt is over. First the one that frees nothing.
using Ending = std::variant<UnknownRequest, CompleteRequest, FailRequest, ReleaseRequest>;

const ClaimRef& claimOf(const Ending& ending);

enum class Settled : uint8_t {
  NotYet,  // The time to report is over; it is still being tried.
  Never,   // Given up: the lease will run out.
  Fenced,  // The record belongs to this attempt no more; nothing was changed.
  Done,    // Durable.
};

struct SettleRequest {
  Ending ending;
  // When the one who waits wants to hear, in any case.
  Deadline report_by{};
  // How long it is tried.
  Deadline until{};
  // Runs exactly once, on the store's or the timer's thread. `reason` says why not, in words for
  // the log. May be empty.
  std::function<void(Settled, const std::string& reason)> report;
  // Runs at most once, on the store's thread: when it is done, also when that is after the report.
  // May be empty.
  std::function<void()> on_done;
  // Runs exactly once when nothing more is tried, after the other two. May be empty.
  std::function<void()> on_over;
};

// Writes the endings of attempts, again and again if the store fails, until their leases end. Safe
// to repeat: each names its attempt. What waits to be tried again is bounded in bytes.
//
// Any thread. The store must be destroyed before this: its callbacks lead here.
class Settler : public TimedTask {
public:
  // `max_bytes`: of responses that wait to be tried again.
  Settler(Store& store, std::chrono::milliseconds store_timeout, uint64_t max_bytes)
      : store_(store), store_timeout_(store_timeout), max_bytes_(max_bytes) {}

  void settle(SettleRequest request, Deadline now);

  // How many are not over.
  size_t size() const;

  // TimedTask
  Deadline onTime(Deadline now) override;

private:
  struct Entry;
  using EntryPtr = std::shared_ptr<Entry>;
  enum class Due : uint8_t { Report, Retry };
  using Agenda = std::multimap<Deadline, std::pair<EntryPtr, Due>>;
  struct Entry {
    SettleRequest request;
    std::chrono::milliseconds backoff{0};
    // Guarded by mutex_:
    bool reported = false;
    std::optional<Agenda::iterator> report_item;
    uint64_t waiting_bytes = 0;  // Counted in waiting_bytes_.
  };

  void write(const EntryPtr& entry, Deadline now);
  void onResult(const EntryPtr& entry, const WriteResult& result);
  // The store could not: again later, or never.
  void onFailure(const EntryPtr& entry, const std::string& reason);
  void end(const EntryPtr& entry, Settled settled, const std::string& reason);
  void report(const EntryPtr& entry, Settled settled, const std::string& reason);
  // With the lock held. Whether the timer must be woken.
  bool wakesBefore(Deadline time);

  Store& store_;
  const std::chrono::milliseconds store_timeout_;
  const uint64_t max_bytes_;
  mutable std::mutex mutex_;  // Guards what follows; never held while a callback or the store runs.
  Agenda agenda_;
  Deadline next_wake_ = Deadline::max();  // When the timer looks again by itself.
  uint64_t waiting_bytes_ = 0;
  size_t size_ = 0;
};

}  // namespace idempotency
