#include <cerrno>
#include <cstdint>
#include <limits>
#include <sys/random.h>

#include "source/store/store.h"

namespace idempotency::store {

protocol::Attempt newAttempt() {
  uint64_t bits = 0;
  for (;;) {
    // Up to 256 bytes come whole; the call blocks only before the kernel's source is ready, and
    // may be interrupted then.
    const ssize_t got = getrandom(&bits, sizeof(bits), 0);
    if (got == static_cast<ssize_t>(sizeof(bits))) {
      bits &= static_cast<uint64_t>(std::numeric_limits<protocol::Attempt>::max());
      if (bits != 0) {
        return static_cast<protocol::Attempt>(bits);
      }
    } else if (got >= 0 || errno != EINTR) {
      return 0;
    }
  }
}

}  // namespace idempotency::store
