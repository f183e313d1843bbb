#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace idempotency::postgres {

// How long to wait before the next try: twice as long each time, within bounds, with jitter.
class Backoff {
public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds longest,
          std::function<double()> jitter)
      : first_(first), longest_(longest), next_(first), jitter_(std::move(jitter)) {}

  // Between half of the present step and all of it.
  [[nodiscard]] std::chrono::milliseconds next() {
    const auto step = std::exchange(next_, std::min(next_ * 2, longest_));
    return std::chrono::ceil<std::chrono::milliseconds>(step * (0.5 + jitter_() / 2));
  }
  void reset() { next_ = first_; }

private:
  const std::chrono::milliseconds first_;
  const std::chrono::milliseconds longest_;
  std::chrono::milliseconds next_;
  const std::function<double()> jitter_;
};

}  // namespace idempotency::postgres
