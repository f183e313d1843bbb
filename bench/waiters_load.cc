// 10,000 requests that wait for others: how often the store is asked, and how long a caller of
// Waiters has to wait for its lock at most while they come, are polled, are woken and leave.
//
//   bazel run --config=opt //bench:waiters_load
//
// A pause that the system makes counts as the lock's: run it on a quiet machine.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "source/runtime/timer_thread.h"
#include "source/runtime/waiters.h"
#include "test/support/fake_store.h"

namespace idempotency {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr int Count = 10'000;
constexpr protocol::Attempt Holder = 7;

// Comes and goes all the time.
class Probe {
public:
  explicit Probe(runtime::Waiters& waiters) : thread_([this, &waiters] { run(waiters); }) {}
  // The longest calls, in microseconds: of all, and of all but one in a thousand.
  std::string finish() {
    over_ = true;
    thread_.join();
    std::sort(times_.begin(), times_.end());
    const auto at = [this](double share) {
      return std::chrono::duration<double, std::micro>(
                 times_.at(static_cast<size_t>(static_cast<double>(times_.size() - 1) * share)))
          .count();
    };
    return fmt::format("{} calls, median {:.1f} us, p99.9 {:.1f} us, longest {:.1f} us",
                       times_.size(), at(0.5), at(0.999), at(1));
  }

private:
  void run(runtime::Waiters& waiters) {
    while (!over_) {
      const auto start = steady_clock::now();
      const runtime::Waiters::Ticket ticket =
          waiters.add({"probe", "pay", "key"}, Holder, start, start + 60s, [] {});
      waiters.remove(ticket);
      times_.push_back(steady_clock::now() - start);
      std::this_thread::sleep_for(20us);
    }
  }

  std::atomic<bool> over_{false};
  std::vector<steady_clock::duration> times_;
  std::thread thread_;
};

void measure(const char* what, bool held_here,
             const std::function<protocol::Identity(int)>& identity) {
  test::FakeStore store;
  store::ClaimRequest request;
  request.attempt = Holder;
  for (int i = 0; i < Count; ++i) {
    request.identity = identity(i);
    store.database().claim(request);
  }
  std::atomic<int> woken{0};
  const auto waiters = std::make_shared<runtime::Waiters>(
      store, [held_here](protocol::Attempt) { return held_here; },
      [](const protocol::Identity&, const store::Record&, store::Deadline) {});
  {
    const runtime::TimerThread timer({waiters});
    Probe probe(*waiters);
    std::vector<runtime::Waiters::Ticket> tickets;
    for (int i = 0; i < Count; ++i) {
      const auto now = steady_clock::now();
      tickets.push_back(waiters->add(identity(i), Holder, now, now + 60s, [&] { ++woken; }));
    }
    const uint64_t before = store.operations();
    std::this_thread::sleep_for(5s);
    const double calls = static_cast<double>(store.operations() - before) / 5;
    for (int i = 0; i < Count / 2; ++i) {
      waiters->remove(tickets[static_cast<size_t>(i)]);
    }
    for (int i = Count / 2; i < Count; ++i) {
      waiters->wakeAll(identity(i));
    }
    fmt::print("{}: {:.0f} look-up calls/s; {} woken; come and go: {}\n", what, calls, woken.load(),
               probe.finish());
  }
}

}  // namespace
}  // namespace idempotency

int main() {
  using idempotency::protocol::Identity;
  const auto own = [](int i) { return Identity{"acme", "pay", fmt::format("key-{}", i)}; };
  const auto one = [](int) { return Identity{"acme", "pay", "key"}; };
  idempotency::measure("10,000 keys held elsewhere", false, own);
  idempotency::measure("10,000 keys held here", true, own);
  idempotency::measure("one key held elsewhere", false, one);
  return 0;
}
