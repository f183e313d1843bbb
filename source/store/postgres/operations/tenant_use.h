#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "source/store/store.h"

namespace idempotency::postgres {

// How many records each tenant with a quota has, as far as this process knows: the last number from
// the database, and what was claimed and released here since then. These changes are written to the
// database shortly afterwards, for many claims together, so that no claim waits for a tenant's row.
//
// Within one process the cap is exact, as far as the database's number is. Between processes it can
// be exceeded by what the others claim before they write it: each may use an eighth of the room
// that it saw before it asks again, and if little is left it writes immediately.
//
// Guarded by the engine's lock. The caller passes the time.
class TenantUse {
public:
  // How long a number from the database is used.
  static constexpr std::chrono::milliseconds FreshFor{1000};
  static constexpr std::chrono::milliseconds WriteEvery{250};
  static constexpr uint64_t ShareOfRoom = 8;

  // --- A place for one record. Each enter() needs a leave().
  // Uses only known numbers. False: ask the database first.
  [[nodiscard]] bool enterUnasked(const std::string& tenant, uint64_t cap,
                                  store::MonotonicTime now);
  // Uses the number that the database has just returned. False: there is no room.
  [[nodiscard]] bool enter(const std::string& tenant, uint64_t cap, store::MonotonicTime now);
  // Uses a new count of all unexpired records. It must be complete: see additions().
  [[nodiscard]] bool enterCounted(const std::string& tenant, uint64_t cap, uint64_t live,
                                  store::MonotonicTime now);
  // How many records were added here so far. A count that was requested before the last addition
  // may not include it.
  [[nodiscard]] uint64_t additions(const std::string& tenant) const;
  // `added`: a record that was not there, or not counted, is there now, or may be.
  void leave(const std::string& tenant, bool added, store::MonotonicTime now);

  // --- Results from the database.
  // How often this tenant's changes were written: a result that was requested before the last time
  // is outdated.
  [[nodiscard]] uint64_t writes(const std::string& tenant) const;
  void onRead(const std::string& tenant, uint64_t records, uint64_t asked_at_writes,
              store::MonotonicTime now);
  // Whether the database returned a smaller number than this.
  [[nodiscard]] bool isBelow(const std::string& tenant, uint64_t records) const;
  // A count went no further than this.
  void onAtLeast(const std::string& tenant, uint64_t records, store::MonotonicTime now);
  // The tenant is new to the database; so many records were found, perhaps not all.
  void onFirstCount(const std::string& tenant, uint64_t records, store::MonotonicTime now);
  // A claim was refused: the database must count again.
  void onRefused(const std::string& tenant, store::MonotonicTime now);
  // A record was deleted.
  void onDeleted(const std::string& tenant, store::MonotonicTime now);

  // --- Writing.
  struct Change {
    std::string tenant;
    std::optional<int64_t> first;  // The tenant is new: how many it had.
    int64_t delta = 0;
  };
  // Does not wait for more, if there is anything.
  void writeAtOnce(store::MonotonicTime now) { next_write_ = std::min(next_write_, now); }
  store::Deadline nextWrite() const { return writing_ ? store::Deadline::max() : next_write_; }
  // What is to be written, in the order of tenants; a bounded part. onWritten(), onNotWritten() or
  // onLost() must follow.
  [[nodiscard]] std::vector<Change> takeChanges(store::MonotonicTime now);
  // Durable, for those that are named, with the number that the database then has. The others go
  // again.
  void onWritten(const std::vector<Change>& changes,
                 const absl::flat_hash_map<std::string, int64_t>& records,
                 store::MonotonicTime now);
  void onNotWritten(const std::vector<Change>& changes, store::MonotonicTime now);
  // Unknown result. Too many is better than too few: additions are repeated, deletions are not.
  void onLost(const std::vector<Change>& changes, store::MonotonicTime now);

  size_t size() const { return entries_.size(); }

private:
  struct Entry {
    int64_t records = 0;   // From the database.
    int64_t reserved = 0;  // Places of claims in progress.
    int64_t pending = 0;   // Changes that are to be written.
    int64_t writing = 0;   // Changes that are being written.
    std::optional<int64_t> first;
    store::Deadline told{};  // When the number was read; epoch: never.
    uint64_t unasked = 0;    // Places since then.
    uint64_t writes = 0;
    uint64_t additions = 0;
    bool changed =
        false;  // There is something to write, even if it is only the time of the request.
    store::Deadline used{};
  };
  static int64_t known(const Entry& entry) {
    return entry.records + entry.reserved + entry.pending + entry.writing;
  }
  Entry& use(const std::string& tenant, store::MonotonicTime now);
  void change(Entry& entry, int64_t delta, store::MonotonicTime now, bool at_once);
  void forgetIdle(store::MonotonicTime now);

  absl::flat_hash_map<std::string, Entry> entries_;
  store::Deadline next_write_ = store::Deadline::max();
  bool writing_ = false;
};

}  // namespace idempotency::postgres
