#include "source/runtime/outage_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <vector>

namespace idempotency::runtime {
namespace {

std::string plural(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::optional<std::string> OutageLog::onClaimFailed(std::string_view reason, Moment now) {
  return onFailure(reason, &Outage::claims, now);
}

std::optional<std::string> OutageLog::onOutcomeNotStored(std::string_view reason, Moment now) {
  return onFailure(reason, &Outage::outcomes, now);
}

void OutageLog::onFailOpen() {
  const std::lock_guard lock(mutex_);
  if (outage_.has_value()) {
    ++outage_->fail_opens;
  }
}

std::optional<std::string> OutageLog::onStatus(const store::StoreStatus& status, Moment now) {
  const std::lock_guard lock(mutex_);
  database_error_ = status.refuses ? status.last_error : "";
  if (!outage_.has_value()) {
    return std::nullopt;
  }
  const uint64_t batches = status.batches - status.batches_failed;
  if (failed_since_status_) {
    failed_since_status_ = false;
    outage_->batches = batches;
  }
  if (status.refuses || batches <= outage_->batches ||
      now.steady < outage_->last_failure + interval_) {
    return std::nullopt;
  }
  const auto lasted =
      std::chrono::ceil<std::chrono::seconds>(outage_->last_failure - outage_->begin.steady);
  std::string line = fmt::format(
      "{} again after {}s{}", refusesRequests(*outage_) ? "store available" : "outcomes are stored",
      lasted.count(), countsOf(*outage_));
  outage_.reset();
  return line;
}

std::optional<std::string> OutageLog::onFailure(std::string_view reason, uint64_t Outage::*count,
                                                Moment now) {
  const std::lock_guard lock(mutex_);
  if (!outage_.has_value()) {
    outage_.emplace(Outage{.begin = now, .last_failure = now.steady, .next_line = now.steady});
  }
  std::optional<std::string> line;
  if (now.steady >= outage_->next_line) {
    outage_->next_line = now.steady + interval_;
    // The requests before this one: how this one is answered is not decided yet.
    const bool refuses = refusesRequests(*outage_) || count == &Outage::claims;
    line = fmt::format("{} since {:%H:%M:%S} UTC: {}{}",
                       refuses ? "store unavailable" : "outcomes not stored",
                       fmt::gmtime(std::chrono::system_clock::to_time_t(outage_->begin.wall)),
                       database_error_.empty() ? reason : database_error_, countsOf(*outage_));
  }
  ++((*outage_).*count);
  outage_->last_failure = now.steady;
  failed_since_status_ = true;
  return line;
}

std::string OutageLog::countsOf(const Outage& outage) {
  std::vector<std::string> parts;
  if (outage.claims > outage.fail_opens) {
    parts.push_back(plural(outage.claims - outage.fail_opens, "request") + " answered 503");
  }
  if (outage.fail_opens > 0) {
    parts.push_back(plural(outage.fail_opens, "request") + " ran unprotected");
  }
  if (outage.outcomes > 0) {
    parts.push_back(plural(outage.outcomes, "outcome") + " not stored in time");
  }
  return parts.empty() ? "" : fmt::format(" ({})", fmt::join(parts, ", "));
}

}  // namespace idempotency::runtime
