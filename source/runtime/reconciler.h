#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "source/message/outcome_answer.h"
#include "source/protocol/settings.h"
#include "source/runtime/asker.h"
#include "source/runtime/reconcile_observer.h"
#include "source/store/operator_store.h"
#include "source/store/store.h"

namespace idempotency::runtime {

struct ReconcilerOptions {
  std::vector<protocol::ReconcileSettings> entries;  // May be empty: it then only counts.
  // How often to look for records that are due, and to count unsettled ones.
  std::chrono::milliseconds look_interval{1000};
  std::chrono::milliseconds count_interval{5000};
  // After a failure of the store, before it is opened again.
  std::chrono::milliseconds store_pause{5000};
  // How long to wait for an answer beyond the question's timeout: then it is lost.
  std::chrono::milliseconds answer_grace{1000};
  // How long the store may take to write what an answer says. Until then no other process asks.
  std::chrono::milliseconds write_time{5000};
};

// Asks the upstream what became of requests whose outcome is unknown, and settles their records, as
// long as this process leads.
//
// A thread of its own does everything: it calls the store, which blocks, and waits for answers. The
// store is opened when this process begins to lead, and closed when it no longer does. Answers come
// on other threads: an inbox with a lock, shared with their callbacks, keeps them for the thread,
// so they may come late or after this object is gone.
//
// Two leaders at once do no harm: takeDue() gives each record to one of them, and a change names
// the attempt that it is about. A process that dies while it asks leaves the record as it was, to
// be taken again when its hold is over.
class Reconciler {
public:
  using OpenStore = std::function<absl::StatusOr<std::unique_ptr<store::OperatorStore>>()>;

  // `open` runs on the reconciler's thread, and may block. The asker outlives this object. `random`
  // gives numbers in [0, 1), on the thread only.
  Reconciler(ReconcilerOptions options, OpenStore open, Asker& asker,
             std::shared_ptr<ReconcileObserver> observer, std::function<double()> random);
  // As stop().
  ~Reconciler();
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;

  // Whether this process leads from now on. Any thread; does not block.
  void lead(bool leads);
  // Waits for the call of the store that is in progress, and for nothing else. Questions without an
  // answer are left to the next leader. Any thread but its own; also twice.
  void stop();

private:
  class Inbox;
  struct Asked {
    store::DueRecord due;
    size_t entry = 0;  // In options_.entries.
    store::Deadline lost_at{};
  };
  struct Entry {
    size_t asked = 0;  // Of its questions in asked_.
    store::Deadline due{};
  };

  // --- The thread.
  void run();
  void work();
  // False: it is to end, or this process no longer leads.
  [[nodiscard]] bool goesOn() const;
  void openStore(store::MonotonicTime now);
  void lookForDue(store::MonotonicTime now);
  void takeDue(size_t entry, store::MonotonicTime now);
  void ask(size_t entry, store::DueRecord due, store::MonotonicTime now);
  void giveUpLost(store::MonotonicTime now);
  void onAnswer(uint64_t id, const message::OutcomeAnswer& answer);
  void apply(const Asked& asked, const message::OutcomeAnswer& answer);
  // True: this changed the record.
  bool change(const store::DueRecord& due, store::OperatorAction action, std::string reason);
  void giveUp(const store::DueRecord& due, const std::string& last_answer);
  void countUnsettled(store::MonotonicTime now);
  void onStoreFailed(const absl::Status& status);
  store::Deadline nextTime() const;

  const ReconcilerOptions options_;
  const std::vector<store::OperationSet> operations_;  // Of each entry.
  const OpenStore open_;
  Asker& asker_;
  const std::shared_ptr<ReconcileObserver> observer_;
  const std::function<double()> random_;
  const std::shared_ptr<Inbox> inbox_;

  // All below: the thread's.
  std::unique_ptr<store::OperatorStore> store_;  // Null: to be opened.
  store::Deadline open_due_{};
  store::Deadline count_due_{};
  std::vector<Entry> entries_;
  std::map<uint64_t, Asked> asked_;
  uint64_t last_id_ = 0;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace idempotency::runtime
