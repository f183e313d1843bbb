#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace idempotency::runtime {

// Lets one line per interval through and counts the others. Any thread.
class LogLimiter {
public:
  explicit LogLimiter(std::chrono::seconds interval) : interval_(interval) {}

  // None if the line is to be dropped; else how many were dropped since the last one.
  std::optional<uint64_t> admit(std::chrono::steady_clock::time_point now) {
    auto next = next_.load();
    const auto ticks = now.time_since_epoch();
    if (ticks < next || !next_.compare_exchange_strong(next, ticks + interval_)) {
      ++kept_back_;
      return std::nullopt;
    }
    return kept_back_.exchange(0);
  }

private:
  const std::chrono::seconds interval_;
  std::atomic<std::chrono::steady_clock::duration> next_{
      std::chrono::steady_clock::duration::min()};
  std::atomic<uint64_t> kept_back_{0};
};

// The end of a line: " (31 more since the last line)", or nothing.
inline std::string droppedLines(uint64_t dropped) {
  return dropped == 0 ? "" : " (" + std::to_string(dropped) + " more since the last line)";
}

}  // namespace idempotency::runtime
