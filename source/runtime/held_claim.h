#pragma once

#include <memory>
#include <string>

#include "source/protocol/policy.h"
#include "source/store/store.h"

namespace idempotency::runtime {

// A claim that a request of this process holds: the right, and the duty, to write its outcome.
struct HeldClaim {
  store::ClaimRef ref;
  std::string fingerprint;  // As stored.
  std::shared_ptr<const protocol::Policy> policy;
  store::StoreTime expires_at{};
  store::Deadline asked{};  // When the claim was requested: lease and ttl did not start earlier.
  // An upstream responded with an internal redirect: the request may have run there.
  bool redirected = false;

  // By this process's clock, and never too late: the lease started after `asked`.
  bool leaseLives(store::MonotonicTime now) const { return now < asked + policy->lease; }
  // In the same way: surely not after expires_at.
  store::Deadline liveUntil() const { return asked + policy->ttl; }
};

}  // namespace idempotency::runtime
