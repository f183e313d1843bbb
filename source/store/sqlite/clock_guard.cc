#include "source/store/sqlite/clock_guard.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>

namespace idempotency::sqlite {

using std::chrono::milliseconds;

namespace {

// Whether a clock that went from one time to the other in this time was not set.
bool isCourseOfTime(int64_t from, int64_t to, milliseconds elapsed, milliseconds tolerance) {
  return std::abs(to - from - elapsed.count()) <= (tolerance + elapsed / 1000).count();
}

}  // namespace

milliseconds machineUptime() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::duration_cast<milliseconds>(std::chrono::seconds(time.tv_sec) +
                                                  std::chrono::nanoseconds(time.tv_nsec));
}

void ClockGuard::start(std::optional<int64_t> remembered, int64_t wall, milliseconds uptime) {
  started_ = true;
  seen_ = uptime;
  believed_ = remembered.value_or(wall);
  if (isCourseOfTime(believed_, wall, milliseconds(0), StartTolerance)) {
    believe(wall);
  } else {
    doubt_ = Doubt{.since = uptime, .wall = wall, .since_start = true};
  }
}

ClockGuard::Now ClockGuard::look(int64_t wall, milliseconds uptime) {
  const milliseconds elapsed = std::max(uptime - seen_, milliseconds(0));
  seen_ = uptime;
  const int64_t expected = believed_ + elapsed.count();
  believed_ = expected;
  if (isCourseOfTime(expected, wall, milliseconds(0), Tolerance + elapsed / 1000)) {
    believe(wall);
  } else if (!doubt_.has_value() || !isCourseOfTime(doubt_->wall, wall, elapsed, Tolerance)) {
    doubt_ = Doubt{.since = uptime, .wall = wall, .since_start = false};
  } else if (uptime - doubt_->since >= StableFor) {
    believe(wall);
  } else {
    doubt_->wall = wall;
  }
  return {.judges = std::min(believed_, wall), .written = std::max(believed_, wall)};
}

void ClockGuard::believe(int64_t wall) {
  believed_ = wall;
  doubt_.reset();
}

}  // namespace idempotency::sqlite
