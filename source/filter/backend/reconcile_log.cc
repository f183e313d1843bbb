#include "source/filter/backend/reconcile_log.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

#include "source/envoy/process.h"
#include "source/protocol/key_hash.h"

namespace idempotency::filter {
namespace {

// A name in quotes that cannot break a line of the log.
std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte >= 0x7f || c == '"' || c == '\\') {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + '"';
}

}  // namespace

void ReconcileLog::onAsked(bool first) {
  stats_.count(&Stats::reconcile_asked);
  if (first) {
    stats_.count(&Stats::reconcile_scheduled);
  }
}

void ReconcileLog::onSettled() {
  stats_.count(&Stats::reconcile_resolved);
}

void ReconcileLog::onUnanswered(const std::string& cluster, const std::string& why) {
  stats_.count(&Stats::reconcile_failed);
  if (const auto dropped = unanswered_.admit(std::chrono::steady_clock::now())) {
    envoy::log(envoy::LogLevel::Warn,
               fmt::format("idempotency: reconciler: cluster {} does not say what became of a "
                           "request: {}{}",
                           quoted(cluster), why, runtime::droppedLines(*dropped)));
  }
}

void ReconcileLog::onDeadLetter(const store::ClaimRef& claim, uint32_t tries,
                                const std::string& last_answer) {
  stats_.count(&Stats::reconcile_dead_letters);
  envoy::log(envoy::LogLevel::Error,
             fmt::format("idempotency: dead letter: the reconciler gives up after {} tries, an "
                         "operator has to settle the record: tenant {}, operation {}, key hash {}, "
                         "attempt {}, last answer: {}",
                         tries, quoted(claim.identity.tenant), quoted(claim.identity.operation),
                         protocol::keyHash(claim.identity), claim.attempt, last_answer));
}

void ReconcileLog::onStoreFailed(const std::string& why) {
  stats_.count(&Stats::maintenance_failed);
  if (const auto dropped = store_failures_.admit(std::chrono::steady_clock::now())) {
    envoy::log(envoy::LogLevel::Warn, fmt::format("idempotency: reconciler failed: {}{}", why,
                                                  runtime::droppedLines(*dropped)));
  }
}

void ReconcileLog::onUnsettled(const std::vector<store::UnsettledUse>& unsettled) {
  std::vector<UnsettledGauges::Row> rows;
  rows.reserve(unsettled.size());
  for (const store::UnsettledUse& use : unsettled) {
    rows.push_back(
        {.operation = use.operation,
         .records = use.records,
         .oldest_seconds = static_cast<uint64_t>(std::max<int64_t>(use.oldest.count(), 0) / 1000),
         .dead_letters = use.dead_letters});
  }
  stats_.showUnsettled(std::move(rows));
}

}  // namespace idempotency::filter
