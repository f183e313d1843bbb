#include "source/protocol/policy.h"

#include <algorithm>

namespace idempotency::protocol {

bool isServerError(int status) {
  return status == 408 || status == 499 || (status >= 500 && status <= 599);
}

http::StatusSet defaultRetryableStatuses(ServerErrors server_errors) {
  http::StatusSet set;
  set.addRange(425, 425);
  set.addRange(429, 429);
  if (server_errors == ServerErrors::Retry) {
    set.addRange(500, 500);
    set.addRange(503, 503);
  }
  return set;
}

http::StatusSet defaultReleasedStatuses() {
  http::StatusSet set;
  set.addRange(401, 401);
  set.addRange(403, 403);
  set.addRange(407, 407);
  return set;
}

uint16_t defaultMismatchStatus(Flavor flavor) {
  return flavor == Flavor::Stripe ? 400 : 422;
}

bool Policy::covers(std::string_view method) const {
  return enforcement != Enforcement::Off &&
         std::binary_search(methods.begin(), methods.end(), method);
}

}  // namespace idempotency::protocol
