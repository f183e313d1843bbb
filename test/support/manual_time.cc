#include "test/support/manual_time.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "source/maintenance/timer_thread.h"

namespace idempotency {
namespace {

// Any moment will do, but for the clock's beginning, which stands for "never" here and there.
constexpr Deadline Beginning{std::chrono::hours(1)};
Deadline current = Beginning;

struct Timer {
  const TimerThread* owner;
  std::vector<std::shared_ptr<TimedTask>> tasks;
};

std::vector<Timer>& timers() {
  static std::vector<Timer> instance;
  return instance;
}

}  // namespace

// In place of source/maintenance/timer_thread.cc: the linker takes that out of its archive only if
// nobody else has defined these.
TimerThread::TimerThread(std::vector<std::shared_ptr<TimedTask>> tasks) : tasks_(std::move(tasks)) {
  timers().push_back({this, tasks_});
}

TimerThread::~TimerThread() {
  std::erase_if(timers(), [this](const Timer& timer) { return timer.owner == this; });
}

namespace test {

Deadline ManualTime::now() {
  return current;
}

void ManualTime::pass(std::chrono::milliseconds time) {
  current += time;
}

void ManualTime::restart() {
  current = Beginning;
}

Deadline ManualTime::runTimers() {
  Deadline next = Deadline::max();
  for (const Timer& timer : std::vector<Timer>(timers())) {
    for (const std::shared_ptr<TimedTask>& task : timer.tasks) {
      next = std::min(next, task->onTime(current));
    }
  }
  return next;
}

}  // namespace test
}  // namespace idempotency

// In place of the C++ library's, for the code of this program; the library itself keeps its own.
// NOLINTNEXTLINE(cert-dcl58-cpp)
std::chrono::steady_clock::time_point std::chrono::_V2::steady_clock::now() noexcept {
  return idempotency::current;
}
