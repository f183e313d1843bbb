#include "test/support/manual_time.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "source/runtime/timer_thread.h"

namespace idempotency {
namespace {

// Any moment will do, but for the clock's beginning, which stands for "never" here and there.
constexpr store::Deadline Beginning{std::chrono::hours(1)};
store::Deadline current = Beginning;

struct Timer {
  const runtime::TimerThread* owner;
  std::vector<std::shared_ptr<runtime::TimedTask>> tasks;
};

std::vector<Timer>& timers() {
  static std::vector<Timer> instance;
  return instance;
}

}  // namespace

// In place of source/runtime/timer_thread.cc: the linker takes that out of its archive only if
// nobody else has defined these.
namespace runtime {

TimerThread::TimerThread(std::vector<std::shared_ptr<TimedTask>> tasks) : tasks_(std::move(tasks)) {
  timers().push_back({this, tasks_});
}

TimerThread::~TimerThread() {
  std::erase_if(timers(), [this](const Timer& timer) { return timer.owner == this; });
}

}  // namespace runtime

namespace test {

store::Deadline ManualTime::now() {
  return current;
}

void ManualTime::pass(std::chrono::milliseconds time) {
  current += time;
}

void ManualTime::restart() {
  current = Beginning;
}

store::Deadline ManualTime::runTimers() {
  store::Deadline next = store::Deadline::max();
  for (const Timer& timer : std::vector<Timer>(timers())) {
    for (const std::shared_ptr<runtime::TimedTask>& task : timer.tasks) {
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
