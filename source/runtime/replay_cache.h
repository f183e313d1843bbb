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

#include "source/message/replay.h"
#include "source/protocol/record.h"
#include "source/protocol/settings.h"
#include "source/store/store.h"

namespace idempotency::runtime {

// A completed record whose response can be replayed. Immutable: such a record does not change until
// it expires.
struct CompletedRecord {
  std::string fingerprint;  // As stored.
  protocol::Attempt attempt = 0;
  store::StoreTime expires_at{};
  // Never later than the record's expiry, by this process's clock: counted from before the store
  // was called.
  store::Deadline live_until{};
  protocol::StoredResponse response;
  std::string key_hash;  // Of its identity: see keyHash().

  // What a replay sends (see buildReplay), built on first use. Any thread.
  const std::optional<message::ReplayMessage>& replay() const;

private:
  mutable std::once_flag built_;
  mutable std::optional<message::ReplayMessage> replay_;
};

// Cache of responses in this process, so that a replay does not need the store. The least recently
// used ones are removed first. None is returned after its record has expired, nor later than
// max_age after it was inserted, so that what an operator removes from the store disappears here,
// too.
//
// Any thread. In shards, each with its own lock, so that workers rarely contend.
class ReplayCache {
public:
  explicit ReplayCache(const protocol::ReplayCacheSettings& settings);

  // Null if it is not cached.
  std::shared_ptr<const CompletedRecord> find(const protocol::Identity& identity,
                                              store::MonotonicTime now);
  // Replaces an existing entry. An entry that alone exceeds the limit is not kept.
  void insert(const protocol::Identity& identity, std::shared_ptr<const CompletedRecord> record,
              store::MonotonicTime now);

  // Current size, including bookkeeping.
  uint64_t bytes() const;
  uint64_t entries() const;

private:
  struct Entry {
    protocol::Identity identity;
    std::shared_ptr<const CompletedRecord> record;
    store::Deadline until{};
    uint64_t bytes = 0;
  };
  using Entries = std::list<Entry>;
  struct IdentityHash {
    size_t operator()(const protocol::Identity& identity) const;
  };
  struct Part {
    mutable std::mutex mutex;
    Entries entries;  // Guarded by mutex, as the rest. Most recently used first.
    absl::flat_hash_map<protocol::Identity, Entries::iterator, IdentityHash> index;
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

}  // namespace idempotency::runtime
