#pragma once

#include <functional>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "source/protocol/decide.h"
#include "source/runtime/replay_cache.h"
#include "source/store/store.h"

// Results of a store, as facts for the decision.
namespace idempotency::request {

// Compares a record's fingerprint; called once.
using Matcher = std::function<protocol::FingerprintMatch(const std::string& stored)>;

// `completed` is the record's response if it can be replayed, else null.
protocol::RecordFound factsOf(const store::Record& record,
                              const runtime::CompletedRecord* completed, const Matcher& match);
protocol::RecordFound factsOf(const runtime::CompletedRecord& completed, const Matcher& match);

// A completed record as it is kept for replays; null if there is no response in it, and an error if
// the response cannot be read. `asked` is when the store was asked for it.
absl::StatusOr<std::shared_ptr<const runtime::CompletedRecord>> completedRecord(
    const store::Record& record, store::Deadline asked, std::string key_hash);

}  // namespace idempotency::request
