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

#include "source/protocol/ending.h"
#include "source/runtime/byte_budget.h"
#include "source/runtime/replay_cache.h"
#include "source/runtime/timed_task.h"
#include "source/store/store.h"

namespace idempotency::runtime {

enum class Settled : uint8_t {
  NotYet,  // It is time to report, but the write is still being tried.
  Never,   // Given up: the lease will expire.
  Fenced,  // The record no longer belongs to this attempt, or somebody else has brought its result;
           // nothing was changed.
  // The upstream has completed the record in its own transaction; nothing was changed. Only of a
  // claim with own_transaction.
  ByUpstream,
  Done,  // Durable.
};

struct SettleReport {
  Settled settled = Settled::Never;
  std::string reason = {};  // Why it failed, as text for the log.
  // ByUpstream: the result.
  std::shared_ptr<const CompletedRecord> completed = {};
};
using OnSettled = std::function<void(const SettleReport&)>;

struct SettleRequest {
  store::ClaimRef claim;
  protocol::Ending ending;
  // The memory that it uses, until it has ended.
  ByteBudget::Charge held;
  // When `report` runs at the latest.
  store::Deadline report_by{};
  // Until when it is tried.
  store::Deadline until{};
  // Runs exactly once, on the store's or the timer's thread. May be empty.
  OnSettled report;
  // Runs at most once, on the store's thread, when the write is done, even after the report. May be
  // empty. `certain`: the record has this ending's content. Otherwise an earlier try had no answer,
  // and it may have that of somebody else.
  std::function<void(bool certain)> on_done;
  // Runs at most once, on the store's thread, before the report, for a claim with own_transaction
  // whose record the store found completed. `asked`: when it was asked. Returns what can be replayed
  // of it. Null: nothing, and then the attempt is Fenced. May be empty, as if it returned null.
  std::function<std::shared_ptr<const CompletedRecord>(const store::Record&, store::Deadline asked)>
      on_completed_by_upstream;
  // Runs exactly once when it has ended, after the others. May be empty.
  std::function<void()> on_over;
};

// Writes the outcomes of attempts, and retries for as long as each request says if the store fails.
// If another transaction has locked the record, this time starts again whenever the lock is seen:
// the attempt still holds the record. A repeated write is safe, because it names its attempt. The
// bytes that wait for a retry are limited.
//
// Any thread. The store's callbacks use this object: it must live until the last of them has run.
class Settler : public TimedTask {
public:
  // `max_bytes`: limit for responses that wait for a retry.
  Settler(store::Store& store, std::chrono::milliseconds store_timeout, uint64_t max_bytes)
      : store_(store), store_timeout_(store_timeout), max_bytes_(max_bytes) {}

  // If it throws (no memory), it keeps nothing of the request, and no callback runs.
  void settle(SettleRequest request, store::MonotonicTime now);

  // How many have not ended.
  size_t size() const;

  // TimedTask
  store::Deadline onTime(store::MonotonicTime now) override;

private:
  struct Entry;
  using EntryPtr = std::shared_ptr<Entry>;
  enum class Due : uint8_t { Report, Retry };
  using Agenda = std::multimap<store::Deadline, std::pair<EntryPtr, Due>>;
  struct Entry {
    SettleRequest request;
    std::chrono::milliseconds backoff{0};
    store::Deadline::duration patience{};  // Until when it is tried.
    bool in_doubt = false;                 // A try may have written it. One try at a time.
    store::Deadline asked{};               // When the last try began.
    // Guarded by mutex_:
    bool reported = false;
    std::optional<Agenda::iterator> report_item;
    uint64_t waiting_bytes = 0;  // Counted in waiting_bytes_.
  };

  void write(const EntryPtr& entry, store::MonotonicTime now);
  // It did not start.
  void forget(Entry& entry);
  // With the lock held. Whether the report is still to be made; it is not due any more.
  bool takeReport(Entry& entry);
  void onResult(const EntryPtr& entry, const store::WriteResult& result);
  void onDone(const EntryPtr& entry, const store::WriteResult& result);
  void onCompletedBefore(const EntryPtr& entry, const store::Record& record);
  // The store failed: retry later, or give up.
  void onFailure(const EntryPtr& entry, const std::string& reason,
                 std::chrono::milliseconds longest_backoff);
  void end(const EntryPtr& entry, const SettleReport& report);
  void report(const EntryPtr& entry, const SettleReport& report);
  // With the lock held. Whether the timer must be woken.
  bool wakesBefore(store::Deadline time);

  store::Store& store_;
  const std::chrono::milliseconds store_timeout_;
  const uint64_t max_bytes_;
  mutable std::mutex mutex_;  // Guards what follows; never held while a callback or the store runs.
  Agenda agenda_;
  store::Deadline next_wake_ = store::Deadline::max();  // When the timer runs next.
  uint64_t waiting_bytes_ = 0;
  size_t size_ = 0;
};

}  // namespace idempotency::runtime
