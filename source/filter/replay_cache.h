#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "source/protocol/record.h"
#include "source/protocol/replay.h"
#include "source/protocol/settings.h"
#include "source/store/store.h"

namespace idempotency {

// A completed record whose response can be replayed. Immutable: such a record never changes until
// its life is over.
struct CompletedRecord {
  std::string fingerprint;  // As stored.
  Attempt attempt = 0;
  StoreTime expires_at{};
  // Surely before the record's end, by this process's clock: counted from before the store was
  // asked.
  Deadline live_until{};
  StoredResponse response;
  std::string key_hash;  // Of its identity: see keyHash().

  // What a replay sends (see buildReplay), put together when it is first asked for. Any thread.
  const std::optional<ReplayMessage>& replay() const;

private:
  mutable std::once_flag built_;
  mutable std::optional<ReplayMessage> replay_;
};

// Responses kept in this process, so that a replay does not need the store. Least recently used
// ones go first; none is given out past its record's life, nor longer than max_age after it was
// put in, so that what an operator removes from the store is gone here too by then.
//
// Any thread. In parts, each with a lock of its own, so that workers seldom meet.
class ReplayCache {
public:
  explicit ReplayCache(const ReplayCacheSettings& settings);

  // Null: not here.
  std::shared_ptr<const CompletedRecord> find(const Identity& identity, Deadline now);
  // Replaces what is there. An entry that alone is over the bound is not kept.
  void insert(const Identity& identity, std::shared_ptr<const CompletedRecord> record,
              Deadline now);

  // What is kept now, with its bookkeeping.
  uint64_t bytes() const;
  uint64_t entries() const;

private:
  struct Entry {
    Identity identity;
    std::shared_ptr<const CompletedRecord> record;
    Deadline until{};
    uint64_t bytes = 0;
  };
  using Entries = std::list<Entry>;
  struct IdentityHash {
    size_t operator()(const Identity& identity) const;
  };
  struct Part {
    mutable std::mutex mutex;
    Entries entries;  // Guarded by mutex, as the rest. Most recently used first.
    absl::flat_hash_map<Identity, Entries::iterator, IdentityHash> index;
    uint64_t bytes = 0;
  };
  static constexpr size_t PartCount = 8;

  Part& partOf(size_t hash);
  // With the part's lock held.
  static void erase(Part& part, Entries::iterator entry);

  const uint64_t part_bytes_;
  const std::chrono::milliseconds max_age_;
  std::array<Part, PartCount> parts_;
};

}  // namespace idempotency
