#pragma once

#include <functional>
#include <memory>

#include "source/filter/replay_cache.h"
#include "source/protocol/decide.h"
#include "source/store/store.h"

// What a store says, as facts for the decision.
namespace idempotency {

// Judges a record's fingerprint; asked once.
using Matcher = std::function<FingerprintMatch(const std::string& stored)>;

// `completed` is the record's response where it can be replayed, else null.
RecordFound factsOf(const Record& record, const CompletedRecord* completed, const Matcher& match);
RecordFound factsOf(const CompletedRecord& completed, const Matcher& match);

}  // namespace idempotency
