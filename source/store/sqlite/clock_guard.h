#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace idempotency::sqlite {

// How long the machine has been up, including sleep: a clock that cannot be set. Any thread.
using Uptime = std::function<std::chrono::milliseconds()>;
std::chrono::milliseconds machineUptime();

// Compares the wall clock with the machine's uptime. If the wall clock is set far ahead by mistake,
// records and leases must not expire: keys would run again. So a step of the wall clock is in doubt
// until both clocks have agreed for a while (StableFor). Until then
//   - whether something has expired is decided by the earlier of the old time and the new one,
//   - new expiry times are computed from the later one,
// so that nothing expires too early, whichever of them is right.
//
// A wrong time that lasts longer is accepted in the end. Steps of the clock while no process runs
// are not seen, except by comparison with the remembered time. Times are milliseconds since 1970.
// One thread.
class ClockGuard {
public:
  static constexpr std::chrono::milliseconds StableFor = std::chrono::minutes(10);
  // Steps up to this size, and a drift of a thousandth, are accepted without doubt.
  static constexpr std::chrono::milliseconds Tolerance{2000};
  // A pause of up to this long between two processes is accepted without doubt.
  static constexpr std::chrono::milliseconds StartTolerance = std::chrono::minutes(5);

  struct Now {
    int64_t judges = 0;
    int64_t written = 0;
  };

  bool started() const { return started_; }
  // `remembered` is the last time that an earlier process accepted; none: trust the wall clock.
  void start(std::optional<int64_t> remembered, int64_t wall, std::chrono::milliseconds uptime);
  // Only after start().
  [[nodiscard]] Now look(int64_t wall, std::chrono::milliseconds uptime);

  // To be remembered for the next process.
  int64_t believed() const { return believed_; }
  // Whether the clock was set while this process ran, and the new time is in doubt.
  bool doubtsStep() const { return doubt_.has_value() && !doubt_->since_start; }

private:
  struct Doubt {
    std::chrono::milliseconds since{0};  // Uptime.
    int64_t wall = 0;                    // As seen last.
    bool since_start = false;
  };

  void believe(int64_t wall);

  bool started_ = false;
  int64_t believed_ = 0;
  std::chrono::milliseconds seen_{0};  // Uptime at the last look.
  std::optional<Doubt> doubt_;
};

}  // namespace idempotency::sqlite
