#include "source/runtime/replay_cache.h"

#include <algorithm>

#include "absl/hash/hash.h"

#include "source/runtime/times.h"

namespace idempotency::runtime {
namespace {

uint64_t sizeOf(const protocol::FieldList& fields) {
  uint64_t bytes = 0;
  for (const auto& [name, value] : fields) {
    bytes += sizeof(protocol::FieldList::value_type) + name.size() + value.size();
  }
  return bytes;
}

// What an entry costs. The identity is kept twice, in the list and in the index; the fields, too,
// once they are replayed.
uint64_t sizeOf(const protocol::Identity& identity, const CompletedRecord& record) {
  constexpr uint64_t Bookkeeping = sizeof(CompletedRecord) + 2 * sizeof(protocol::Identity) + 128;
  return Bookkeeping +
         2 * (identity.tenant.size() + identity.operation.size() + identity.key.size()) +
         record.fingerprint.size() + record.key_hash.size() + record.response.body.size() +
         2 * (sizeOf(record.response.headers) + sizeOf(record.response.trailers));
}

}  // namespace

const std::optional<message::ReplayMessage>& CompletedRecord::replay() const {
  std::call_once(built_, [this] {
    replay_ = message::buildReplay(response, {.head = false, .expires_at = secondsOf(expires_at)});
  });
  return replay_;
}

size_t ReplayCache::IdentityHash::operator()(const protocol::Identity& identity) const {
  return absl::HashOf(identity.tenant, identity.operation, identity.key);
}

ReplayCache::ReplayCache(const protocol::ReplayCacheSettings& settings)
    : part_bytes_(settings.max_bytes / PartCount), max_age_(settings.max_age) {}

std::shared_ptr<const CompletedRecord> ReplayCache::find(const protocol::Identity& identity,
                                                         store::MonotonicTime now) {
  if (part_bytes_ == 0) {
    return nullptr;
  }
  const size_t hash = IdentityHash{}(identity);
  Part& part = partOf(hash);
  const std::lock_guard lock(part.mutex);
  const auto found = part.index.find(identity, hash);
  if (found == part.index.end()) {
    return nullptr;
  }
  const Entries::iterator entry = found->second;
  if (entry->until <= now) {
    erase(part, entry);
    return nullptr;
  }
  part.entries.splice(part.entries.begin(), part.entries, entry);
  return entry->record;
}

void ReplayCache::insert(const protocol::Identity& identity,
                         std::shared_ptr<const CompletedRecord> record, store::MonotonicTime now) {
  const uint64_t bytes = sizeOf(identity, *record);
  const store::Deadline until = std::min(record->live_until, now + max_age_);
  if (bytes > part_bytes_ || until <= now) {
    return;
  }
  Part& part = partOf(IdentityHash{}(identity));
  const std::lock_guard lock(part.mutex);
  if (const auto found = part.index.find(identity); found != part.index.end()) {
    erase(part, found->second);
  }
  part.entries.push_front(Entry{identity, std::move(record), until, bytes});
  part.index.emplace(identity, part.entries.begin());
  part.bytes += bytes;
  while (part.bytes > part_bytes_) {
    erase(part, std::prev(part.entries.end()));
  }
}

uint64_t ReplayCache::bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    bytes += part.bytes;
  }
  return bytes;
}

uint64_t ReplayCache::entries() const {
  uint64_t entries = 0;
  for (const Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    entries += part.entries.size();
  }
  return entries;
}

ReplayCache::Part& ReplayCache::partOf(size_t hash) {
  // The index uses the low bits.
  return parts_[(hash >> 32) % PartCount];
}

void ReplayCache::erase(Part& part, Entries::iterator entry) {
  part.bytes -= entry->bytes;
  part.index.erase(entry->identity);
  part.entries.erase(entry);
}

}  // namespace idempotency::runtime
