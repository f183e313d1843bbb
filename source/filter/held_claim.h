#pragma once

#include <memory>
#include <string>

#include "source/protocol/policy.h"
#include "source/store/store.h"

namespace idempotency {

// A claim that a request of this process holds: the right, and the duty, to write how it ended.
struct HeldClaim {
  ClaimRef ref;
  std::string fingerprint;  // As stored.
  std::shared_ptr<const Policy> policy;
  StoreTime expires_at{};
  Deadline asked{};  // When the claim was asked for: lease and life began no earlier.

  // By this process's clock, so surely not too late: the lease began after `asked`.
  bool leaseLives(Deadline now) const { return now < asked + policy->lease; }
};

}  // namespace idempotency
