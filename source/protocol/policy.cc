#include "source/protocol/policy.h"

#include <algorithm>

namespace idempotency {

StatusSet defaultRetryableStatuses() {
  StatusSet set;
  set.addRange(408, 408);
  set.addRange(425, 425);
  set.addRange(429, 429);
  set.addRange(500, 599);
  return set;
}

StatusSet defaultReleasedStatuses() {
  StatusSet set;
  set.addRange(401, 401);
  set.addRange(403, 403);
  set.addRange(407, 407);
  return set;
}

bool Policy::covers(std::string_view method) const {
  return enforcement != Enforcement::Off &&
         std::binary_search(methods.begin(), methods.end(), method);
}

}  // namespace idempotency
