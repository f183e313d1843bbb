// Preloaded into Envoy, it makes the wall clock of that process differ from the machine's, by as
// many seconds as the eight bytes of the file $CLOCK_SHIFT_FILE say, from the moment they change.
// The monotonic clock stays true, as when an administrator sets the time.
//
// libfaketime cannot do it here: it asks for memory when the clock is first read, and Envoy's
// allocator reads the clock before it can give any. This one allocates nothing and asks the kernel.

#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

const volatile int64_t* shift = nullptr;

// Threads read the clock before and after; until then, and without the file, the time is the
// machine's.
__attribute__((constructor)) void openFile() {
  const char* path = std::getenv("CLOCK_SHIFT_FILE");
  if (path == nullptr) {
    return;
  }
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return;
  }
  void* mapped = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) {
    shift = static_cast<const volatile int64_t*>(mapped);
  }
}

int64_t seconds() {
  return shift == nullptr ? 0 : *shift;
}

bool isWallClock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (result == 0 && isWallClock(clock)) {
    now->tv_sec += seconds();
  }
  return result;
}

__attribute__((visibility("default"))) int gettimeofday(timeval* now, void* zone) noexcept {
  const int result = static_cast<int>(syscall(SYS_gettimeofday, now, zone));
  if (result == 0) {
    now->tv_sec += seconds();
  }
  return result;
}

__attribute__((visibility("default"))) time_t time(time_t* place) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (place != nullptr) {
    *place = now.tv_sec;
  }
  return now.tv_sec;
}

}  // extern "C"
