#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "source/store/store.h"

namespace idempotency::runtime {

// One moment on both clocks: intervals are measured on the first, people read the second.
struct Moment {
  std::chrono::steady_clock::time_point steady;
  std::chrono::system_clock::time_point wall;
};

// Sums up what a failing store does to requests: a line when an outage begins, one per interval
// while requests fail, and one when the store works again. The caller logs the lines. Any thread.
class OutageLog {
public:
  explicit OutageLog(std::chrono::seconds interval) : interval_(interval) {}

  // A key could not be claimed; the request is answered with 503 unless onFailOpen() follows.
  [[nodiscard]] std::optional<std::string> onClaimFailed(std::string_view reason, Moment now);
  [[nodiscard]] std::optional<std::string> onOutcomeNotStored(std::string_view reason, Moment now);
  void onFailOpen();

  // To be called often, from one thread. An outage is over when nothing failed for an interval and
  // the store has done something in the meantime.
  [[nodiscard]] std::optional<std::string> onStatus(const store::StoreStatus& status, Moment now);

private:
  struct Outage {
    Moment begin;
    std::chrono::steady_clock::time_point last_failure;
    std::chrono::steady_clock::time_point next_line;
    uint64_t claims = 0;
    uint64_t outcomes = 0;
    uint64_t fail_opens = 0;
    uint64_t batches = 0;  // That had succeeded soon after the last failure.
  };

  std::optional<std::string> onFailure(std::string_view reason, uint64_t Outage::*count,
                                       Moment now);
  // Whether requests were refused, or only outcomes could not be written (a locked record, say).
  static bool refusesRequests(const Outage& outage) { return outage.claims > 0; }
  static std::string countsOf(const Outage& outage);

  const std::chrono::seconds interval_;
  std::mutex mutex_;  // Guards all below.
  std::optional<Outage> outage_;
  bool failed_since_status_ = false;
  std::string database_error_;  // While the store refuses requests because of it; else empty.
};

}  // namespace idempotency::runtime
