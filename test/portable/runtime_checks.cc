#include "test/portable/runtime_checks.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/epoll.h>
#include <thread>
#include <unistd.h>

namespace idempotency::portable_test {
namespace {

[[gnu::noinline]] void fail(int depth) {
  const std::string text(64, 'x');  // To be destroyed on the way up.
  if (depth == 0) {
    throw std::runtime_error(text);
  }
  fail(depth - 1);
}

// The unwinder finds the tables of this object.
bool catches() {
  try {
    fail(20);
  } catch (const std::exception& error) {
    return std::string(error.what()) == std::string(64, 'x');
  }
  return false;
}

bool catchesLibrarys() {
  try {
    return std::string().at(1) == 'x';
  } catch (const std::out_of_range&) {
    return true;
  }
}

bool catchesOnThread() {
  bool caught = false;
  std::thread([&caught] { caught = catches(); }).join();
  return caught;
}

bool isRandom() {
  std::random_device device;
  std::set<unsigned> seen;
  for (int i = 0; i < 100; ++i) {
    seen.insert(device());
  }
  return seen.size() > 90;
}

// For a shorter time than a millisecond, or with ENOSYS on an old kernel.
bool waitsExactly() {
  const int fd = epoll_create1(0);
  epoll_event event{};
  const timespec time{0, 200'000};
  const auto start = std::chrono::steady_clock::now();
  const int count = epoll_pwait2(fd, &event, 1, &time, nullptr);
  const auto passed = std::chrono::steady_clock::now() - start;
  const bool fine = count == 0 ? passed >= std::chrono::microseconds(200) : errno == ENOSYS;
  close(fd);
  return fine;
}

bool namesErrors() {
  const char* const text = strerrordesc_np(ENOENT);
  return text != nullptr && std::string(text) == "No such file or directory" &&
         strerrordesc_np(123456) == nullptr;
}

}  // namespace

const char* firstFault() {
  if (!catches()) {
    return "an exception of our own is not caught";
  }
  if (!catchesLibrarys()) {
    return "an exception of the standard library is not caught";
  }
  if (!catchesOnThread()) {
    return "an exception on another thread is not caught";
  }
  if (!isRandom()) {
    return "std::random_device repeats itself";
  }
  if (!namesErrors()) {
    return "errors have no or wrong names";
  }
  return waitsExactly() ? nullptr : "epoll_pwait2 does not wait";
}

}  // namespace idempotency::portable_test
